"""What the routes of the audit log answer."""

from collapsewatch_server.reading.views import Iso, View


class AuditEntryView(View):
    """Something that somebody did, or was not allowed to do."""

    id: int
    at: Iso
    actor: str
    """Name of the account, `key <id>`, or who else it was."""
    action: str
    """Such as `run.delete`; what stands before the point is what it is about."""
    target: str
    """What it was done to, as it was called then."""
    project: str | None
    """None for what concerns no single project."""
    address: str
    """Network address that the request came from; empty for what was done on the server's own machine."""
    outcome: str
    """`done`, or the code of the error with which it was refused."""


class AuditPage(View):
    """Some entries, newest first."""

    entries: list[AuditEntryView]
    next_before_id: int | None
    """Hand it in as `before_id` to go on; none when there are no older ones."""
