"""Why an answer cannot be had."""

from collapsewatch.errors import CollapsewatchError


class AskingFailedError(CollapsewatchError):
    """No server answers, and none can be started; the message is for the user."""
