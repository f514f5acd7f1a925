"""What can go wrong in the SDK. Training code meets these only under `COLLAPSEWATCH_STRICT=1`."""


class CollapsewatchError(Exception):
    """Base of all errors of this package."""


class SettingsError(CollapsewatchError):
    """A setting, or an argument of `init`, cannot be used."""


class InvalidInputError(CollapsewatchError):
    """A batch or a value that cannot be sent as it is."""

    def __init__(self, message: str, *, kind: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind or message
        """Equal for mistakes of the same sort, which are reported once."""


class DeliveryError(CollapsewatchError):
    """Something that was logged did not reach the server."""
