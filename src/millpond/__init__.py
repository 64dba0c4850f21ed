"""millpond: one pool of GPU cards, many tenants, every card-second explained."""

__version__ = "0.1.0"
