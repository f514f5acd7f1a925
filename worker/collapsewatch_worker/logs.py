"""How the worker's processes log: a constant message, then the facts as `key=value`."""

import json
import logging
import sys

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class FactsFormatter(logging.Formatter):
    """`2026-01-31 12:00:00,000 INFO collapsewatch_worker.loop.parent: batch scored run=… step=…`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s[%(process)d]: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is the standard library's
        """The line without a traceback, every `extra` fact behind its message."""
        facts = (f"{key}={_shown(value)}" for key, value in vars(record).items() if key not in _STANDARD)
        return " ".join([super().formatMessage(record), *facts])


def configure_logging(level: str) -> None:
    """Sends this process's log to stderr. Only a `main` calls it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FactsFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # httpx tells of every request at INFO: one line per heartbeat is noise.
    logging.getLogger("httpx").setLevel(max(logging.WARNING, logging.getLevelName(level)))


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = str(value)
    # A quoted value keeps the log one line per message, whatever a traceback or a label holds.
    return (
        json.dumps(text, ensure_ascii=False)
        if not text or any(c.isspace() or c in '"=' for c in text)
        else text
    )
