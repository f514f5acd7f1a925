"""The commands that read, against a real server: what they print, as text and as JSON, and how they exit."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from collapsewatch.asking import tables
from collapsewatch.asking.app import app
from collapsewatch_server.auth import Purpose
from collapsewatch_server.launch.credentials import leave_credentials
from tests.server.alerted import act, opened
from tests.server.live import LiveServer, result_body


@pytest.fixture(scope="module")
def bell() -> str:
    """A name that rings the bell, clears the screen and turns the direction of the text."""
    return "evil\x07\x1b[2J\u202ename"


@pytest.fixture
def live(start_sqlite_server: Any, bell: str) -> LiveServer:
    """Two runs, one with scores and scalars."""
    server: LiveServer = start_sqlite_server()
    first = server.start_run(run_id="one", name="first", config={"lr": 1e-3, "same": 1}, tags=["good"])
    server.start_run(run_id="two", name=bell, config={"lr": 2e-3, "same": 1})
    for step in range(3):
        server.send_batch(first, step)
        assert server.done(server.claim("w1")["job_id"], result_body())
    body = {"points": [{"step": step, "values": {"kl": 0.1 * step, "loss": 1.0}} for step in range(3)]}
    assert server.ingest("POST", "/runs/one/scalars", json=body).is_success
    return server


@pytest.fixture
def guarded(start_sqlite_server: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LiveServer:
    """A server that people sign in to, and a program with no key for it."""
    server: LiveServer = start_sqlite_server(login=True)
    for name in ("READ_KEY", "API_KEY", "URL"):
        monkeypatch.delenv(f"COLLAPSEWATCH_{name}", raising=False)
    monkeypatch.setenv("COLLAPSEWATCH_HOME", str(tmp_path / "nobody"))
    server.start_run(run_id="one", name="first")
    return server


def test_where_people_sign_in_a_program_needs_a_key_for_reading(
    guarded: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = command(guarded, "runs")
    assert refused.exit_code == 2
    assert "COLLAPSEWATCH_READ_KEY" in refused.output
    assert "keys create --purpose read" in refused.output
    # A trainer's key is not taken for one.
    monkeypatch.setenv("COLLAPSEWATCH_READ_KEY", guarded.ingest_key)
    assert "and the given one is for `ingest`" in " ".join(command(guarded, "runs").output.split())
    key = guarded.services.keyring.create(Purpose.read, project="p", label="notebook")
    monkeypatch.setenv("COLLAPSEWATCH_READ_KEY", key)
    for arguments in (["runs"], ["show", "one"], ["alerts"], ["compare", "one"]):
        assert command(guarded, *arguments).exit_code == 0, arguments
    monkeypatch.delenv("COLLAPSEWATCH_READ_KEY")
    monkeypatch.setenv("NOTEBOOKS_KEY", key)
    assert "first" in command(guarded, "runs", "--api-key-env", "NOTEBOOKS_KEY").output


def test_programs_of_this_user_find_the_key_that_the_server_has_left(
    guarded: LiveServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    leave_credentials(tmp_path, guarded.url, guarded.services.keyring)
    monkeypatch.setenv("COLLAPSEWATCH_HOME", str(tmp_path))
    assert "first" in command(guarded, "runs").output
    # It has been withdrawn meanwhile: another one is left at the next start, and the trainers' stays.
    before = json.loads((tmp_path / "credentials.json").read_text())
    keyring = guarded.services.keyring
    for key, _ in keyring.all_keys():
        if key.purpose == "read":
            keyring.revoke(key.id)
    assert command(guarded, "runs").exit_code == 2
    assert leave_credentials(tmp_path, guarded.url, keyring) is None
    after = json.loads((tmp_path / "credentials.json").read_text())
    assert after["api_key"] == before["api_key"]
    assert after["read_key"] != before["read_key"]
    assert "first" in command(guarded, "runs").output


def command(live: LiveServer, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--url", live.url])


def said(live: LiveServer, *arguments: str) -> str:
    result = command(live, *arguments)
    assert result.exit_code == 0, result.output
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", result.output)
    return result.output


def answered(live: LiveServer, *arguments: str) -> Any:
    result = command(live, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_runs(live: LiveServer, bell: str) -> None:
    lines = said(live, "runs").splitlines()
    assert [line.split()[0] for line in lines] == ["id", "two", "one"]
    assert "evil" in lines[1]
    assert [run["name"] for run in answered(live, "runs")["runs"]] == [bell, "first"]
    assert [run["run_id"] for run in answered(live, "runs", "--search", "GOOD")["runs"]] == ["one"]
    assert [run["run_id"] for run in answered(live, "runs", "--limit", "1")["runs"]] == ["two"]
    assert said(live, "runs", "--project", "elsewhere").strip() == "no runs"


def test_show(live: LiveServer) -> None:
    text = said(live, "show", "first")
    assert "p/first  (one)" in text
    assert "3 scored, 0 waiting" in text
    assert answered(live, "show", "one")["jobs"]["done"] == 3


def test_metrics(live: LiveServer) -> None:
    shown = said(live, "metrics", "first", "kl", "loss", "--scope", "trainer").splitlines()
    assert shown == ["step\tkl\tloss", "0\t0.0\t1.0", "1\t0.1\t1.0", "2\t0.2\t1.0"]
    newest = said(live, "metrics", "first", "--scope", "trainer").splitlines()
    assert [line.split() for line in newest[1:]] == [["kl", "2", "0.2"], ["loss", "2", "1"]]
    answer = answered(live, "metrics", "first", "kl", "--scope", "trainer", "--since-step", "2")
    assert answer["series"]["kl"]["values"] == [0.2]


def test_what_is_not_there_exits_with_2_and_says_what_is(live: LiveServer) -> None:
    for arguments, words in (
        (("show", "third"), "no run 'third'"),
        (("show", "first", "--project", "q"), "in project q"),
        (("metrics", "first", "--scope", "turn/9"), "its scopes: "),
        (("metrics", "first", "nothing", "--scope", "trainer"), "it has kl, loss"),
        (("metrics", "two"), "none yet"),
        (("runs", "--api-key-env", "NO_SUCH_VARIABLE"), "NO_SUCH_VARIABLE"),
    ):
        result = command(live, *arguments)
        assert (result.exit_code, words in result.output) == (2, True), result.output


def test_nobody_answers(live: LiveServer) -> None:
    result = CliRunner().invoke(app, ["runs", "--url", "http://127.0.0.1:9"])
    assert (result.exit_code, "no server answers" in result.output) == (2, True)


def test_alerts(start_sqlite_server: Any) -> None:
    live = start_sqlite_server()
    run_id, alert_id = opened(live)
    line = said(live, "alerts", run_id).splitlines()[1]
    assert line.split()[:3] == [str(alert_id), "warning", "open"]
    act(live, alert_id, "resolve")
    assert said(live, "alerts").strip() == "no alerts"
    assert [item["state"] for item in answered(live, "alerts", "--all")["items"]] == ["resolved"]
    assert answered(live, "alerts", "--severity", "critical", "--all")["items"] == []


class TestTables:
    def test_cells_are_cut_but_for_the_last_one(self) -> None:
        long = "x" * 100
        shown = tables.columns(("a", "b"), [(long, long)]).splitlines()[1]
        assert shown == "x" * 47 + "…  " + long

    def test_a_rollout_keeps_its_lines_and_nothing_else_that_steers(self) -> None:
        turn = {"prompt": "a\nb\x1b[31m", "response": None}
        found = {
            "step": 3,
            "index": 1,
            "num_rollouts": 2,
            "group_id": "g\n",
            "reward": None,
            "turns": [turn],
        }
        assert tables.of_rollout(found).splitlines() == [
            "step 3, rollout 1 of 2, prompt g , reward –",
            "--- turn 0: prompt",
            "a",
            "b [31m",
            "--- turn 0: response",
            "(token ids only)",
        ]


def test_rollouts(live: LiveServer) -> None:
    lines = said(live, "rollouts", "first").splitlines()
    assert lines[0].startswith("step 2: ")
    found = answered(live, "rollouts", "first", "--step", "1", "--limit", "1")
    assert (found["step"], len(found["rollouts"])) == (1, 1)
    one = said(live, "rollouts", "first", "0")
    assert one.startswith("step 2, rollout 0 of ")
    assert "--- turn 0: response" in one
    missing = command(live, "rollouts", "first", "999")
    assert (missing.exit_code, "has no rollout 999" in missing.output) == (2, True)


def test_rollouts_are_searched(live: LiveServer) -> None:
    excerpt = answered(live, "rollouts", "first", "--limit", "1")["rollouts"][0]["excerpt"]
    word = excerpt.split()[0]
    assert answered(live, "rollouts", "first", "--search", word)["hits"]
    assert word in said(live, "rollouts", "first", "--search", word)
    assert said(live, "rollouts", "first", "--search", "no such words anywhere").strip() == "nothing found"


def test_compare(live: LiveServer) -> None:
    text = said(live, "compare", "first", "two", "--scalar", "kl")
    assert "first" in text.splitlines()[0]
    assert ["config.lr", "0.001", "0.002"] in [line.split() for line in text.splitlines()]
    assert "config.same" not in text
    assert any(line.split()[:2] == ["kl", "0.2"] for line in text.splitlines())
    assert [run["run_id"] for run in answered(live, "compare", "two", "one")["runs"]] == ["two", "one"]


@pytest.mark.parametrize("kind", ["csv", "parquet", "html", "png", "svg"])
def test_export(live: LiveServer, kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"out.{kind}"
    beginnings = {"csv": b"run_id,", "parquet": b"PAR1", "html": b"<!", "png": b"\x89PNG", "svg": b"<?xml"}
    assert said(live, "export", "first", "-o", str(file)).strip() == f"{file}: {file.stat().st_size} bytes"
    assert file.read_bytes().lower().startswith(beginnings[kind].lower())
    again = command(live, "export", "first", "-o", str(file))
    assert (again.exit_code, "existsalready" in _plain(again.output)) == (2, True)


def test_what_cannot_be_exported_leaves_nothing(live: LiveServer, tmp_path: Path) -> None:
    for arguments, words in (
        (("first", "-o", "out.doc"), "must end with"),
        (("first", "-o", str(tmp_path / "none" / "out.csv")), "there is no folder"),
        (("first", "-o", str(tmp_path / "out.png"), "--chart", "nothing"), "no chart 'nothing'"),
        (("third", "-o", str(tmp_path / "out.csv")), "no run 'third'"),
    ):
        result = command(live, "export", *arguments)
        assert (result.exit_code, _plain(words) in _plain(result.output)) == (2, True), result.output
    assert list(tmp_path.glob("out*")) == []
    assert list(tmp_path.glob(".out*")) == []


def _plain(text: str) -> str:
    """Without the frame in which a message is broken into lines."""
    return re.sub(r"[\s│]", "", text)
