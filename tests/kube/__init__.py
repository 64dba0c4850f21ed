"""A whole Kubernetes control plane with Volcano and fake nodes, on loopback, for tests and for the command line."""
