"""The page's files while somebody works on them, and while they are upgraded."""

import os
from pathlib import Path

import pytest

from collapsewatch_server.web import page_files
from collapsewatch_server.web.page_files import STYLES, Edition

INDEX = "".join(f'<link rel="stylesheet" href="/static/css/{name}.css" />\n' for name in ("one", "two"))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {
        "index.html": INDEX,
        "css/one.css": "a{}",
        "css/two.css": "b{}",
        "js/app.js": "1",
    }.items():
        write(tmp_path / name, text)
    monkeypatch.setattr(page_files, "static_dir", lambda: tmp_path)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, (0, 0))


class Watched:
    """The newest edition, each time as if a second had passed."""

    def __init__(self) -> None:
        self.watched = page_files._Watched()

    def newest(self) -> Edition:
        self.watched._looked_at = -1
        return self.watched.newest()


def test_an_edition_is_named_by_what_is_in_the_files(root: Path) -> None:
    first = Watched().newest()
    assert first.files[STYLES].plain == b"a{}\nb{}"
    assert Watched().newest().name == first.name
    # As long as before, and of the same time, as builds that can be repeated make them.
    write(root / "js/app.js", "2")
    assert Watched().newest().name != first.name


def test_files_are_read_again_only_when_they_changed(root: Path) -> None:
    watched = Watched()
    first = watched.newest()
    assert watched.newest() is first
    write(root / "js/app.js", "200")
    assert watched.newest().files["js/app.js"].plain == b"200"


def test_what_editors_lay_beside_does_no_harm(root: Path) -> None:
    (root / "js/.#app.js").symlink_to("somebody@somewhere")
    (root / "js/gone.js").symlink_to("nowhere")
    assert sorted(Watched().newest().files) == [
        "css/one.css",
        STYLES,
        "css/two.css",
        "index.html",
        "js/app.js",
    ]


@pytest.mark.parametrize("name", ["index.html", "css/two.css"])
def test_in_the_middle_of_an_upgrade_the_edition_before_stands(root: Path, name: str) -> None:
    watched = Watched()
    first = watched.newest()
    text = (root / name).read_text()
    (root / name).unlink()
    assert watched.newest() is first
    write(root / name, text)
    write(root / "js/app.js", "new")
    assert watched.newest().files["js/app.js"].plain == b"new"
    (root / "index.html").unlink()
    with pytest.raises(KeyError):
        Watched().newest()
