"""Log-probs of single tokens, kept of each row under its own prompt while the whole matrix is computed. Pure.

Legend: R reasonings, T tokens of one of them.
"""

from collections.abc import Callable, Sequence

from collapsewatch_worker.metrics.arrays import Floats, Ints

TokenNote = Callable[[Sequence[int], Sequence[int], Floats], None]
"""Is told of every pair that was scored: rows and columns that are equal, and log p of each token [T]."""


class OwnTokens:
    """What is wanted of the matrix: its rows' own columns. The other R x (P - 1) pairs are let go."""

    def __init__(self, prompt_of_R: Ints) -> None:
        self._own = prompt_of_R.tolist()
        self.log_probs: dict[int, Floats] = {}
        """By row."""

    def note(self, rows: Sequence[int], columns: Sequence[int], log_probs_T: Floats) -> None:
        """Keeps the pair where it is a row under its own prompt."""
        for row in rows:
            if self._own[row] in columns:
                self.log_probs[row] = log_probs_T
