"""Alembic's environment and versions; run by `millpond.db.schema` only."""
