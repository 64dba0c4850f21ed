"""Starting and stopping a millpond on this machine; used by `millpond.main` only."""
