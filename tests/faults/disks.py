"""Small disks, and how to fill one."""

from contextlib import suppress
from pathlib import Path


def fill(balloon: Path) -> None:
    """Takes all that is left of the disk, to the last byte that a file can have."""
    with balloon.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while file.write(b"\0" * size) == size:
                    pass
