"""The engine for an existing Kubernetes with Volcano.

Here are the pure parts: from orders and queues to the objects that a cluster is given, as plain dicts (`jobs`,
`queues`, `tenants`), with their names (`names`) and amounts (`amounts`); from Node objects to inventory
(`nodes`); and what is wrong with Volcano's configuration (`doctor`).  Nothing here talks to a cluster.
"""
