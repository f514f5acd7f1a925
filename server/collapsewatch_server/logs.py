"""How the server logs: a constant message, then the facts as `key=value`."""

import json
import logging
import sys

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class FactsFormatter(logging.Formatter):
    """`2026-01-31 12:00:00,000 INFO collapsewatch_server.ingest: batch accepted run=… step=…`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the standard library's name)
        """The line without a traceback, every `extra` fact behind its message, always one line."""
        facts = [f"{key}={_shown(value)}" for key, value in vars(record).items() if key not in _STANDARD]
        return " ".join([super().formatMessage(record), *facts])


def configure_logging(level: str) -> None:
    """Sends this process's log to stderr. Only `main` calls it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FactsFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # One line per request and per migration step is noise beside one line per batch.
    for name in ("uvicorn.access", "uvicorn.error", "alembic"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level)))


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = str(value)
    needs_quotes = not text or any(char.isspace() or char in '"=' or not char.isprintable() for char in text)
    return json.dumps(text, ensure_ascii=False) if needs_quotes else text
