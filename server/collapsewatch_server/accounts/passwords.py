"""Passwords: hashed with Argon2id, and how a new one has to be."""

import secrets
from contextlib import suppress
from threading import BoundedSemaphore

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

MIN_CHARS, MAX_CHARS = 10, 200
AT_ONCE = 4
"""Passwords that are hashed at a time, for 64 MiB each; others wait for their turn."""
_hasher = PasswordHasher()
_turns = BoundedSemaphore(AT_ONCE)
# Checked where there is no account, so that the time of an answer does not tell whether there is one.
_NOBODYS = _hasher.hash(secrets.token_urlsafe())


def problem(password: str, name: str) -> str | None:
    """What is wrong with a new password; length is what counts."""
    if not MIN_CHARS <= len(password) <= MAX_CHARS:
        return f"a password has {MIN_CHARS} to {MAX_CHARS} characters"
    if name.lower() in password.lower() or len(set(password)) < 5:
        return "a password is not the name, nor a few characters over and over"
    return None


def hashed(password: str) -> str:
    """What may be stored of it; takes a twentieth of a second and 64 MiB."""
    with _turns:
        return _hasher.hash(password)


def is_right(password: str, stored: str | None) -> bool:
    """Whether it is the password; takes as long when nothing is stored."""
    with _turns, suppress(VerificationError, InvalidHashError):
        return _hasher.verify(stored or _NOBODYS, password) and stored is not None
    return False


def is_outdated(stored: str) -> bool:
    """Whether it was hashed with less effort than today's."""
    return _hasher.check_needs_rehash(stored)
