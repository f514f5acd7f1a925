"""The page: static ES modules, CSS and HTML, without a build step."""

from pathlib import Path


def static_dir() -> Path:
    """Folder that the server serves as `/static`; it holds `index.html`."""
    return Path(__file__).resolve().parent / "static"
