"""Commands that need no server: the pure core on a file (scheduling §9)."""
