"""Runs the migrations on the connection that `millpond.db.schema` opened (with its timeouts and its lock)."""

from alembic import context

from millpond.db.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
