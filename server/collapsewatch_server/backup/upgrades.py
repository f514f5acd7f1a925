"""A backup of the rows before a migration changes them."""

import logging
import time
from pathlib import Path

from collapsewatch_server.backup.keeping import back_up
from collapsewatch_server.db import Database
from collapsewatch_server.migrations import newest_revision, stored_revision

log = logging.getLogger(__name__)

FOLDER = "backups"
"""Below the home folder."""


def back_up_before_upgrade(database: Database, home: Path) -> Path | None:
    """Where the rows of a database lie that is about to be migrated; none when nothing is to be migrated.

    Blobs are left out: migrations do not touch them.

    Raises:
        OSError: there is no room for it; the database is as it was.
    """
    with database.engine.connect().execution_options(begin="BEGIN") as connection:
        revision = stored_revision(connection)
    if revision is None or revision == newest_revision():
        return None
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = home / FOLDER / f"before-upgrade-of-{revision}-{moment}-{time.time_ns() % 10**6:06d}.tar"
    log.warning("the database will be upgraded; its rows are kept", extra={"path": str(path)})
    back_up(database, None, path)
    return path
