import json
import sys
import types
from typing import Any

import pytest

import collapsewatch
from collapsewatch import showing
from collapsewatch.settings import Settings
from collapsewatch.showing import Shown

from .conftest import Answer, Recorder, Seen

PATH = "/s/Zk3vXo0hQmWc1b9c0Yt7n2s8u4d6f1aP"


class Links:
    """A server that makes links, once it knows the run."""

    def __init__(self, recorder: Recorder) -> None:
        self.drafts: list[Any] = []
        self.num_unknown = 0
        self.receipt: dict[str, Any] = {"path": PATH, "url": None}
        self.refusal: Answer | None = None
        recorder.answers = self.answer

    def answer(self, seen: Seen) -> Answer | None:
        if seen.path != "/api/v1/shares":
            return None
        self.drafts.append(seen.body)
        if self.refusal is not None:
            return self.refusal
        if len(self.drafts) <= self.num_unknown:
            return Answer(404, body='{"error": {"code": "run_not_found", "message": "there is no run"}}')
        return Answer(201, body=json.dumps(self.receipt))


@pytest.fixture
def links(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Links:
    monkeypatch.setattr(showing, "ASK_AGAIN_SECONDS", 0.02)
    return Links(recorder)


def test_a_run_is_shown_by_a_link_to_it_alone(
    run: collapsewatch.Run, recorder: Recorder, links: Links
) -> None:
    page = run.show(height=500)
    assert page.url == f"{recorder.url}{PATH}"
    (draft,) = links.drafts
    assert draft["run_ids"] == [run.id]
    assert (draft["kind"], draft["mode"], draft["view"]) == ("run", "live", f"#/runs/{run.id}")
    assert draft["expires_in_seconds"] == 30 * 86_400
    html = page._repr_html_()
    assert f'src="{page.url}?embed"' in html
    assert 'height="500"' in html
    assert page.url in repr(page)


def test_the_same_link_is_used_again_but_a_snapshot_is_a_new_one(
    run: collapsewatch.Run, links: Links
) -> None:
    first = run.show()
    assert run.show(height=300).url == first.url
    assert run.show(height=300).height == 300
    assert len(links.drafts) == 1
    run.show(snapshot=True)
    run.show(snapshot=True)
    assert [draft["mode"] for draft in links.drafts] == ["live", "snapshot", "snapshot"]


def test_the_address_that_the_operator_gave_comes_first(run: collapsewatch.Run, links: Links) -> None:
    links.receipt["url"] = f"https://watch.example{PATH}"
    assert run.show().url == f"https://watch.example{PATH}"


def test_a_run_that_is_still_on_its_way_is_waited_for(run: collapsewatch.Run, links: Links) -> None:
    links.num_unknown = 3
    assert run.show().url
    assert len(links.drafts) == 4


def test_a_run_that_does_not_arrive_is_given_up(run: collapsewatch.Run, links: Links) -> None:
    links.num_unknown = 10_000
    page = run.show(timeout_seconds=1.5)
    assert page.url == ""
    assert "has not arrived" in page._repr_html_()
    links.num_unknown = 0
    assert run.show().url


def test_a_server_that_is_away_or_refuses_raises_nothing(
    run: collapsewatch.Run, recorder: Recorder, links: Links
) -> None:
    links.refusal = Answer(409, body='{"error": {"code": "share_conflict", "message": "too many <links>"}}')
    page = run.show()
    assert (page.url, page.reason) == ("", "too many <links>")
    assert "too many &lt;links&gt;" in page._repr_html_()
    assert len(links.drafts) == 1
    recorder.down()
    assert "does not answer" in run.show(timeout_seconds=0.1).reason


def test_where_people_sign_in_a_key_for_reading_makes_the_link(
    recorder: Recorder, links: Links, tmp_path: Any
) -> None:
    settings = Settings(recorder.url, "cw_ingest_x", "cw_read_x", spool_root=tmp_path)
    window = showing.RunWindow(settings, "r")
    options: dict[str, Any] = {"height": 500, "days": 1.0, "snapshot": False, "timeout_seconds": 60.0}
    assert window.show("", **options).url
    (seen,) = [seen for seen in recorder.seen if seen.path == "/api/v1/shares"]
    assert seen.headers["authorization"] == "Bearer cw_read_x"
    links.refusal = Answer(401, body='{"error": {"code": "unauthorised", "message": "sign in first"}}')
    page = showing.RunWindow(Settings(recorder.url, spool_root=tmp_path), "r").show("", **options)
    assert not page.url
    assert page.reason.startswith("sign in first. ")
    assert "COLLAPSEWATCH_READ_KEY" in page.reason


@pytest.mark.parametrize("mode", ["offline", "disabled"])
def test_a_run_that_is_not_sent_is_not_shown(tmp_path: Any, mode: Any, recorder: Recorder) -> None:
    with collapsewatch.init("p", "n", url=recorder.url, mode=mode) as run:
        assert mode in run.show().reason


class Notebook:
    """As much of IPython as is asked."""

    def __init__(self) -> None:
        self.execution_count = 1
        self.displayed: list[dict[str, str]] = []
        self.display = types.SimpleNamespace(display=self._display)

    def get_ipython(self) -> "Notebook":
        return self

    def _display(self, content: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.displayed.append(content)


def test_a_notebook_displays_it_wherever_it_stands_in_a_cell_and_once(
    run: collapsewatch.Run, links: Links, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    page = run.show()
    assert page.url in notebook.displayed[0]["text/html"]
    # As the last word of the same cell, and then of another one.
    page._ipython_display_()
    assert len(notebook.displayed) == 1
    notebook.execution_count += 1
    page._ipython_display_()
    assert len(notebook.displayed) == 2
    run.show()
    assert len(notebook.displayed) == 3


def test_an_address_cannot_leave_its_frame() -> None:
    html = Shown('http://x/"><script>')._repr_html_()
    assert "<script>" not in html
