"""What became of one attempt to reach a channel."""

from dataclasses import dataclass

ANSWER_CHARS = 500
"""So much of an answer is kept."""


@dataclass(frozen=True)
class Outcome:
    """How one attempt ended."""

    is_sent: bool
    answer: str
    """The receiver's own words, or why there are none; without secrets, at most 500 characters."""
    status_code: int | None = None
    may_retry: bool = True
    """False when another attempt would end in the same way."""
    retry_after_seconds: float | None = None
    """How long the receiver asked to be left alone."""

    @property
    def problem(self) -> str:
        """Why it was not sent, for people."""
        status = "" if self.status_code is None else f"HTTP {self.status_code}"
        return ": ".join(filter(None, (status, self.answer))) or "no reason was given"


def sent(answer: str, status_code: int | None = None) -> Outcome:
    """An attempt that the receiver took."""
    return Outcome(True, cut(answer), status_code)


def failed(answer: str, *, may_retry: bool = True) -> Outcome:
    """An attempt that did not get as far as an answer."""
    return Outcome(False, cut(answer), may_retry=may_retry)


def cut(text: str) -> str:
    """The start of the text, in one line that a database takes."""
    return "".join(c if c.isprintable() else " " for c in text[: 2 * ANSWER_CHARS]).strip()[:ANSWER_CHARS]


def without(text: str, secrets: tuple[str, ...]) -> str:
    """The text with every secret struck out, also where it is a part of a longer word."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text
