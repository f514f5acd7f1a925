"""The page's files, held in memory and compressed once: a first visit asks for nearly two hundred of them."""

import gzip
import hashlib
import mimetypes
import re
import time
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

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


def page_edition() -> str:
    """A name for the page's files as they are now: modules that name each other stay in one edition."""
    return _edition_at(int(time.monotonic()))


def page_files() -> dict[str, Asset]:
    """The files of this edition by their path."""
    return _files_of(page_edition())


def page_file(path: str, asked: Headers) -> Response | None:
    """The answer to whoever asks for `/static/{path}`; none when there is no such file.

    Browsers ask each time and are mostly told that nothing changed. Only what goes by the name of this
    edition lasts: under that name there will never be another file, and of another edition nobody can tell.
    """
    edition, _, rest = path.partition("/")
    is_edition = _EDITION.fullmatch(edition) is not None
    asset = page_files().get(rest if is_edition else path)
    if asset is None:
        return None
    lasting = is_edition and edition == page_edition()
    return asset.answer(asked, IMMUTABLE if lasting else "no-cache")


@lru_cache(maxsize=1)
def _edition_at(second: int) -> str:
    # Looked at once a second, since somebody may be at work on the files.
    known = hashlib.sha256()
    for path in sorted(static_dir().rglob("*")):
        status = path.stat()
        known.update(f"{path.relative_to(static_dir())} {status.st_size} {status.st_mtime_ns}\n".encode())
    return f"v-{known.hexdigest()[:16]}"


@lru_cache(maxsize=1)
def _files_of(edition: str) -> dict[str, Asset]:
    root = static_dir()
    contents = {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }
    sheets = STYLE_LINK.findall(contents["index.html"].decode())
    contents[STYLES] = b"\n".join(contents[name] for name in sheets)
    return {name: Asset(content, _media_type(name)) for name, content in contents.items()}


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
