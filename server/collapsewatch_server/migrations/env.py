"""Run by Alembic: applies the versions on the connection that `upgrade` holds."""

from alembic import context

import collapsewatch_server.account_tables
import collapsewatch_server.alert_tables  # (its tables are part of the schema)
import collapsewatch_server.channel_tables  # (and these)
import collapsewatch_server.share_tables  # noqa: F401
from collapsewatch_server.tables import Base


def _run() -> None:
    connection = context.config.attributes["connection"]
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        # The caller's transaction holds everything together, on SQLite too.
        transactional_ddl=False,
        render_as_batch=connection.dialect.name == "sqlite",
    )
    context.run_migrations()


_run()
