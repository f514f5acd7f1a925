"""How long a checkpoint is waited for that the engine does not serve."""


class Patience:
    """One for all evaluations of a worker, since it remembers whether waiting was of any use.

    Args:
        seconds: how long an engine that serves something else is given to load the checkpoint.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._expects_change = True

    def may_come(self, waited_seconds: float, *, has_moved_on: bool) -> bool:
        """Whether a checkpoint that is not served after so long is still worth waiting for.

        Args:
            has_moved_on: the engine serves a later version of it, and will not go back.
        """
        if has_moved_on:
            return False
        if waited_seconds >= self.seconds:
            # A worker that waited so long for each batch of an engine that lags behind would do nothing else.
            self._expects_change = False
        return self._expects_change

    def came(self) -> None:
        """The engine served what was asked for."""
        self._expects_change = True
