"""What a process has logged and the server does not have yet: an append-only, checksummed folder on disk.

What `append` has returned from survives the death of the process; the newest seconds may be lost when the
operating system dies, for nothing is forced to the platter.
"""

from collapsewatch.spool.folders import SpoolError, SpoolMeta
from collapsewatch.spool.records import Record, RecordKind
from collapsewatch.spool.spool import Spool
from collapsewatch.spool.status import SpoolStatus

__all__ = ["Record", "RecordKind", "Spool", "SpoolError", "SpoolMeta", "SpoolStatus"]
