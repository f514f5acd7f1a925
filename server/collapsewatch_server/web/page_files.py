"""The page's files, held in memory and compressed once: a first visit asks for nearly two hundred of them."""

import gzip
import hashlib
import mimetypes
import re
import threading
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

import zstandard
from starlette.datastructures import Headers
from starlette.responses import Response

from collapsewatch_frontend import static_dir

STYLES = "css/page.css"
"""All style sheets that the page's document names, in its order, as one file."""
STYLE_LINK = re.compile(r'<link rel="stylesheet" href="/static/([^"]+)" />\n?')
IMMUTABLE = "public, max-age=31536000, immutable"
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 12
# These do not depend on what is installed on this machine.
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
}
_EDITION = re.compile(r"v-[0-9a-f]{16}")


class Asset:
    """A file in every encoding that browsers ask for."""

    def __init__(self, plain: bytes, media_type: str) -> None:
        self.plain = plain
        self.media_type = media_type
        # The same content in other bytes is what a weak tag stands for.
        self.etag = f'W/"{hashlib.sha256(plain).hexdigest()[:32]}"'

    @cached_property
    def gzip(self) -> bytes:
        """What goes to browsers on an unencrypted line."""
        return gzip.compress(self.plain, _GZIP_LEVEL, mtime=0)

    @cached_property
    def zstd(self) -> bytes:
        """What goes to all others."""
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(self.plain)

    def answer(self, asked: Headers, cache_control: str) -> Response:
        """The file as `asked` for, or that it has not changed."""
        headers = {"ETag": self.etag, "Cache-Control": cache_control, "Vary": "Accept-Encoding"}
        known = (tag.strip().removeprefix("W/") for tag in asked.get("if-none-match", "").split(","))
        if self.etag.removeprefix("W/") in known:
            return Response(status_code=304, headers=headers)
        accepted = _encodings(asked.get("accept-encoding", ""))
        content = self.plain
        if "zstd" in accepted:
            content, headers["Content-Encoding"] = self.zstd, "zstd"
        elif "gzip" in accepted:
            content, headers["Content-Encoding"] = self.gzip, "gzip"
        return Response(content, media_type=self.media_type, headers=headers)

    def warm(self) -> None:
        """Compresses it, so that nobody who asks waits for that."""
        _ = self.gzip, self.zstd


@dataclass(frozen=True, eq=False)
class Edition:
    """The page's files as they are at one moment: modules that name each other stay in one edition."""

    name: str
    """Made of what is in the files: under it there will never be others."""
    files: dict[str, Asset]
    """By path."""


class _Watched:
    """The newest edition. It is looked for once a second, since somebody may be at work on the files."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looked_at = -1
        self._seen = b""
        self._edition: Edition | None = None

    def newest(self) -> Edition:
        second = int(time.monotonic())
        with self._lock:
            if self._edition is None or second != self._looked_at:
                self._edition = self._looked()
                self._looked_at = second
            return self._edition

    def _looked(self) -> Edition:
        try:
            seen = _seen()
            edition = self._edition if seen == self._seen and self._edition is not None else _read()
        except (OSError, KeyError):
            # In the middle of an upgrade a file may be missing for a moment.
            if self._edition is None:
                raise
            return self._edition
        self._seen = seen
        return edition


newest_edition = _Watched().newest


def page_file(path: str, asked: Headers) -> Response | None:
    """The answer to whoever asks for `/static/{path}`; none when there is no such file.

    Browsers ask each time and are mostly told that nothing changed. Only what goes by the name of this
    edition lasts: of another edition nobody can tell.
    """
    edition = newest_edition()
    named, _, rest = path.partition("/")
    asset = edition.files.get(rest if _EDITION.fullmatch(named) else path)
    if asset is None:
        return None
    return asset.answer(asked, IMMUTABLE if named == edition.name else "no-cache")


def _paths() -> list[Path]:
    # Editors lay their own files beside, which begin with a dot.
    return sorted(path for path in static_dir().rglob("[!.]*") if path.is_file())


def _seen() -> bytes:
    known = hashlib.sha256()
    for path in _paths():
        status = path.stat()
        known.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return known.digest()


def _read() -> Edition:
    root = static_dir()
    contents = {path.relative_to(root).as_posix(): path.read_bytes() for path in _paths()}
    sheets = STYLE_LINK.findall(contents["index.html"].decode())
    contents[STYLES] = b"\n".join(contents[name] for name in sheets)
    known = hashlib.sha256()
    for name, content in contents.items():
        known.update(f"{name} {len(content)}\n".encode() + content)
    files = {name: Asset(content, _media_type(name)) for name, content in contents.items()}
    return Edition(f"v-{known.hexdigest()[:16]}", files)


def _media_type(name: str) -> str:
    kind = _TYPES.get(PurePosixPath(name).suffix) or mimetypes.guess_type(name)[0]
    return kind or "application/octet-stream"


def _encodings(accept: str) -> set[str]:
    names = set()
    for item in accept.lower().split(","):
        name, _, quality = item.partition(";")
        if quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            names.add(name.strip())
    return names
