"""Texts, names and numbers that are meant to do harm: markup, paths, patterns that never end, floods."""

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from collapsewatch.blobs import open_blob_store
from tests.server.live import LiveServer, batch_body, result_body

HOSTILE = "<img src=x onerror='window.owned=1'><script>window.owned=1</script>"
PATHS = [
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "....//etc/passwd",
    "..\\..\\x",
]
# How long an answer may take whatever is asked for: all of them take milliseconds, and a busy machine
# stands still for seconds.
_PATIENCE_SECONDS = 20.0


@pytest.fixture(scope="module")
def hostile(guarded: LiveServer) -> dict[str, Any]:
    """Markup in every text that somebody can write."""
    live = guarded
    run_id = live.start_run(
        project=HOSTILE, name=HOSTILE, tags=[HOSTILE], config={HOSTILE: HOSTILE}, scorer={"kind": "lexical"}
    )
    turn = {"prompt": f"{HOSTILE} <think>", "response": f"{HOSTILE}</think>{HOSTILE}"}
    rollouts = [{"group_id": HOSTILE, "reward": 1.0, "turns": [turn]}]
    live.score(run_id, 0, result_body(), rollouts=rollouts)
    points = {"points": [{"step": 1, "values": {HOSTILE[:60]: 0.5}}]}
    live.ingest("POST", f"/runs/{run_id}/scalars", json=points)
    assert live.call("PATCH", f"/runs/{run_id}/about", json={"notes": HOSTILE, "tags": [HOSTILE]}).is_success
    rule = {"name": HOSTILE, "metric": "kl", "scope": "trainer", "operator": ">", "threshold": 0.1}
    assert live.call("POST", "/alert-rules", json=rule).is_success
    draft = {"name": HOSTILE, "kind": "webhook", "url": "http://127.0.0.1:9/", "enabled": False}
    assert live.call("POST", "/channels", json=draft).is_success
    share = live.call("POST", "/shares", json={"title": HOSTILE, "kind": "run", "run_ids": [run_id]}).json()
    for path in ("/keys", "/invitations"):
        more = {"purpose": "read", "days": 1} if path == "/keys" else {"makes_operator": False}
        assert live.call("POST", path, json={"label": HOSTILE, **more}).is_success
    return {"run_id": run_id, "token": share["token"]}


def test_no_answer_with_markup_in_it_can_be_opened_as_a_page(
    guarded: LiveServer, hostile: dict[str, Any]
) -> None:
    run = f"/runs/{hostile['run_id']}"
    paths = [
        "/projects",
        "/runs",
        "/run-list",
        "/alert-rules",
        "/channels",
        "/shares",
        "/keys",
        "/invitations",
    ]
    paths += [
        run,
        f"{run}/rollouts?step=0",
        f"{run}/rollouts/0/0",
        f"{run}/steps/0",
        f"{run}/template",
        "/audit",
    ]
    paths += [
        f"{run}/rollout-search?q=onerror",
        f"/shared/{hostile['token']}",
        f"/compare?run={hostile['run_id']}",
    ]
    num_seen = 0
    for path in paths:
        answer = guarded.call("GET", path)
        assert answer.status_code == 200, (path, answer.text)
        assert answer.headers["content-type"] == "application/json", path
        assert answer.headers["x-content-type-options"] == "nosniff"
        num_seen += "onerror" in answer.text
        json.loads(answer.text)
    assert num_seen > 12


@pytest.mark.parametrize("ending", ["series.csv", "report.html", "chart.svg"])
def test_what_is_taken_away_is_a_file_and_its_name_is_harmless(
    guarded: LiveServer, hostile: dict[str, Any], ending: str
) -> None:
    query = {"run": hostile["run_id"], "title": HOSTILE, "chart": "retrieval"}
    answer = guarded.call("GET", f"/exports/{ending}", params=query)
    if ending == "chart.svg" and answer.status_code == 404:
        query["chart"] = "quadrant"
        answer = guarded.call("GET", f"/exports/{ending}", params=query)
    assert answer.status_code == 200, answer.text[:500]
    kind, _, name = answer.headers["content-disposition"].partition("; filename=")
    assert kind == "attachment"
    assert not set(name.strip('"')) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert "<img" not in answer.text or ending == "series.csv"
    assert "<script>window.owned" not in answer.text or ending == "series.csv"


@pytest.mark.parametrize("path", PATHS)
def test_a_path_leads_to_nothing_outside(guarded: LiveServer, path: str) -> None:
    for before in (
        "/static/",
        "/static/v-0123456789abcdef/",
        "/vendor/",
        "/s/",
        "/api/v1/runs/",
        "/api/v1/exports/",
    ):
        # As it is: the client's library would tidy it up.
        url = httpx.URL(guarded.url).copy_with(raw_path=f"{before}{path}".encode())
        answer = guarded.http.get(url)
        assert answer.status_code in (400, 404, 405, 422) or before == "/s/", (before, answer.status_code)
        assert "root:" not in answer.text


@pytest.mark.parametrize(
    "name", ["../x", "a/b", ".", "..", "/etc/passwd", "a\\b", "x\n", "CON:/..", "%2e%2e"]
)
def test_no_name_that_a_trainer_chooses_is_a_path(guarded: LiveServer, name: str) -> None:
    body = {"run_id": name, "project": "p", "name": "n"}
    assert guarded.ingest("POST", "/runs", json=body).status_code == 422
    run_id = guarded.start_run()
    home = guarded.services.settings.home
    before = {path for path in home.rglob("*") if "blobs" not in path.parts}
    guarded.ingest("POST", f"/runs/{run_id}/batches", json=batch_body(1, batch_id=name))
    guarded.ingest("POST", f"/runs/{run_id}/batches", json=batch_body(2, checkpoint=name))
    assert {path for path in home.rglob("*") if "blobs" not in path.parts} == before
    assert not [path for path in (home / "blobs").rglob("*") if ".." in path.parts]


def test_a_blob_is_read_from_its_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"root:")
    blobs = open_blob_store(str(tmp_path / "blobs"))
    for key in ("../outside", "a/../../outside", str(tmp_path / "outside"), "", "a//b"):
        with pytest.raises(ValueError, match="key"):
            blobs.read(key)


@pytest.mark.parametrize(
    "text", ["a" * 200, "a " * 100, "((((a+)+)+)+)+$" * 10, "\\" * 200, "[" * 200, "\u0130" * 200, ".*" * 100]
)
def test_no_search_is_a_pattern_that_never_ends(
    guarded: LiveServer, hostile: dict[str, Any], text: str
) -> None:
    long = {"prompt": "a" * 200_000 + " <think>", "response": "a " * 100_000 + "</think>!"}
    run_id = guarded.start_run(scorer={"kind": "lexical"})
    rollouts = [{"group_id": "g", "reward": 1.0, "turns": [long]}]
    assert guarded.send_batch(run_id, 0, rollouts=rollouts).status_code == 202
    started = time.perf_counter()
    answer = guarded.call("GET", f"/runs/{run_id}/rollout-search", params={"q": text})
    assert answer.status_code in (200, 422), answer.text
    assert time.perf_counter() - started < _PATIENCE_SECONDS


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/session", {"name": "a" * 100, "password": "!" * 1000}),
        ("POST", "/session/join", {"token": "a" * 200, "name": "a@" * 50, "password": "!" * 1000}),
        ("POST", "/session/link", {"token": "-" * 200}),
        ("POST", "/invitations", {"label": " " * 199 + "x", "makes_operator": False}),
        ("POST", "/alert-rules/import", {"toml": "[[ " + " " * 900_000}),
        ("POST", "/alert-rules/import", {"toml": "[[rule" * 100_000}),
        ("POST", "/alert-rules/import", {"toml": "[[rules" + " " * 900_000}),
        ("POST", "/alert-rules/import", {"toml": "x = " + "[" * 900_000}),
        ("POST", "/alert-rules/import", {"toml": "a" + ".a" * 400_000 + " = 1"}),
        ("POST", "/alert-rules/import", {"toml": "[" + "a." * 400_000 + "a]\nb = 1"}),
        ("POST", "/alert-rules/import", {"toml": "x = {" + "a." * 400_000 + "a = 1}"}),
        ("POST", "/alert-rules/import", {"toml": 'x = ["""\n\'""", {' + "a." * 400_000 + "a = 1}]"}),
        ("POST", "/alert-rules/import", {"toml": "[[rule]]\n" * 90_000}),
        ("POST", "/alert-rules/import", {"toml": "".join(f"x{i} = 1\n" for i in range(90_000))}),
        (
            "POST",
            "/shares",
            {"title": " " * 200, "kind": "run", "run_ids": ["a" * 64], "view": "#/" + "a" * 3990},
        ),
    ],
)
def test_no_field_is_checked_by_a_pattern_that_never_ends(
    guarded: LiveServer, method: str, path: str, body: dict[str, Any]
) -> None:
    started = time.perf_counter()
    answer = guarded.call(method, path, json=body)
    assert answer.status_code < 500, answer.text
    assert time.perf_counter() - started < _PATIENCE_SECONDS


@pytest.mark.parametrize("path", ["/session", "/session/join", "/session/link"])
def test_whoever_has_not_signed_in_cannot_fill_the_memory(guarded: LiveServer, path: str) -> None:
    flood = b'{"name": "' + b"a" * 5_000_000 + b'"}'
    deep = b"[" * 100_000
    for content, statuses in ((flood, (413,)), (deep, (400, 413, 422))):
        headers = {"Origin": guarded.url}
        answer = httpx.post(f"{guarded.url}/api/v1{path}", content=content, headers=headers, timeout=60)
        assert answer.status_code in statuses, answer.text
        assert len(answer.content) < 2000
