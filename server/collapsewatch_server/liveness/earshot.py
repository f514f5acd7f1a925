"""Since when this server could hear signs of life, so that its own absence is nobody else's silence."""


class Earshot:
    """Knows the last break in this server's hearing.

    Nobody could be heard before the server started, while its database was away, or while the whole machine
    slept. Silence is counted from the end of such a break on: every run gets its full time again.
    """

    def __init__(self, longest_gap_seconds: float) -> None:
        self._longest_gap_seconds = longest_gap_seconds
        self._was_deaf = True
        self._since = 0.0
        self._last_look = 0.0

    def lost(self) -> None:
        """Notes that a sign of life could not be stored, or a look failed; may be called from any thread."""
        self._was_deaf = True

    def since(self, now: float) -> float:
        """When the last break ended, at a look that succeeded `now` (by the database's clock)."""
        gap_seconds = now - self._last_look
        if self._was_deaf or not 0 <= gap_seconds <= self._longest_gap_seconds:
            self._since = now
        self._was_deaf = False
        self._last_look = now
        return self._since
