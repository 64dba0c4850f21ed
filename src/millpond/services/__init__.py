"""Use cases: one transaction each, authorized in the stores, events in the same transaction.

Every function takes the `Services` that main built, then the `Actor` who asks.
"""
