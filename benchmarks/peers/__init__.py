"""What millpond is measured against: policies and schedulers of others, run here beside ours."""
