"""The keys with which programs of this user on this machine reach the server: a file in the home folder."""

import json
import os
from pathlib import Path

from collapsewatch_server.auth import Keyring, Purpose

CREDENTIALS_FILE = "credentials.json"
_KEYS = {"api_key": Purpose.ingest, "read_key": Purpose.read}


def leave_credentials(home: Path, url: str, keyring: Keyring) -> str | None:
    """Leaves address and keys where the SDK looks for them; the one for trainers if it is new, to be shown.

    The one for reading is what `collapsewatch runs` and a notebook's `run.show()` send.
    """
    path = home / CREDENTIALS_FILE
    stored = _stored(path)
    kept = {
        name: stored[name] if keyring.is_good(stored.get(name, ""), purpose) else None
        for name, purpose in _KEYS.items()
    }
    keys = {
        name: key or keyring.create(_KEYS[name], project=None, label="this machine")
        for name, key in kept.items()
    }
    _write(path, {"url": url, **keys})
    return None if kept["api_key"] is not None else keys["api_key"]


def _stored(path: Path) -> dict[str, str]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    found = document if isinstance(document, dict) else {}
    return {name: key for name, key in found.items() if name in _KEYS and isinstance(key, str)}


def _write(path: Path, document: dict[str, str]) -> None:
    # Readable by this user alone from its first moment; replaced whole, because a trainer may read it now.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
    temporary.replace(path)
