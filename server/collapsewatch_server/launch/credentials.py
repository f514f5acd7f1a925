"""The key with which programs of this user on this machine reach the server: a file in the home folder."""

import json
import os
from pathlib import Path

from collapsewatch_server.auth import Keyring, Purpose

CREDENTIALS_FILE = "credentials.json"


def leave_credentials(home: Path, url: str, keyring: Keyring) -> str | None:
    """Leaves address and key where the SDK looks for them; the key if it is a new one, to be shown once."""
    path = home / CREDENTIALS_FILE
    stored = _stored_key(path)
    if stored is not None and keyring.is_good(stored, Purpose.ingest):
        _write(path, url, stored)
        return None
    key = keyring.create(Purpose.ingest, project=None, label="this machine")
    _write(path, url, key)
    return key


def _stored_key(path: Path) -> str | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    key = document.get("api_key") if isinstance(document, dict) else None
    return key if isinstance(key, str) else None


def _write(path: Path, url: str, key: str) -> None:
    # Readable by this user alone from its first moment; replaced whole, because a trainer may read it now.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"url": url, "api_key": key}, file, indent=2)
        file.write("\n")
    temporary.replace(path)
