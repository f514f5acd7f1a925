"""Secrets of channels, as they lie in the database: sealed with a key that does not lie there.

It keeps them from whoever holds a copy of the database (a backup, a dump, a reader of its tables) without the
key. It does not keep them from whoever can read the server's settings, its home folder or its memory.
"""

import base64
import json
import os
import secrets
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_FILE = "secret.key"
_KEY_BYTES = 32
_PURPOSE = b"collapsewatch channels v1"


class Unsealable(Exception):
    """What is stored was sealed with another key."""


class Vault:
    """Seals and opens; the key is looked up, or made, when it is first needed."""

    def __init__(self, home: Path, key: str | None, *, purpose: bytes = _PURPOSE) -> None:
        """The vault.

        Args:
            purpose: what is sealed for one purpose cannot be opened for another.
        """
        self._home = home
        self._purpose = purpose
        self._given = key
        self._fernet: Fernet | None = None

    def seal(self, content: dict[str, str]) -> str:
        """The content as text that says nothing without the key."""
        return self._box().encrypt(json.dumps(content).encode()).decode("ascii")

    def open(self, sealed: str) -> dict[str, str]:
        """What was sealed.

        Raises:
            Unsealable: not with this key.
        """
        try:
            content = json.loads(self._box().decrypt(sealed.encode("ascii")))
        except (InvalidToken, UnicodeEncodeError):
            raise Unsealable(
                "its secret was stored with another COLLAPSEWATCH_SECRET_KEY; enter it anew"
            ) from None
        return {str(name): str(value) for name, value in content.items()}

    def _box(self) -> Fernet:
        if self._fernet is None:
            key = self._given or _kept_key(self._home)
            # The key has its randomness already; this only brings it to the length that is wanted.
            derived = HKDF(hashes.SHA256(), _KEY_BYTES, salt=None, info=self._purpose).derive(key.encode())
            self._fernet = Fernet(base64.urlsafe_b64encode(derived))
        return self._fernet


def _kept_key(home: Path) -> str:
    """The key in the home folder; made when there is none."""
    path = home / KEY_FILE
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Written whole under another name first: of two servers that start together both read the one that won.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    if not path.exists():
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(_KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    key = path.read_text(encoding="ascii").strip()
    if len(key) < _KEY_BYTES:
        raise Unsealable(f"the key file {KEY_FILE} in the home folder is damaged")
    return key
