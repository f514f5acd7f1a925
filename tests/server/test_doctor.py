"""Mistakes of an installation, made for real: `collapsewatch doctor` finds each and says how to mend it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import redis
from sqlalchemy import text
from typer.testing import CliRunner

from collapsewatch.cli import PROGRAMS, Program
from collapsewatch.doctor import main
from collapsewatch.doctor.findings import Finding, go_through, room
from collapsewatch.doctor.trainer import checks as look_at_trainer
from collapsewatch_server.auth import Purpose
from collapsewatch_server.db import Database
from collapsewatch_server.doctor import checks as look_at_server
from collapsewatch_server.migrations import upgrade
from collapsewatch_worker.doctor import checks as look_at_worker
from tests.servers import free_port

ANYWHERE = "0.0.0.0"  # noqa: S104 (not bound for long)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with nothing in it, for all three roles."""
    monkeypatch.setenv("COLLAPSEWATCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLLAPSEWATCH_PORT", str(free_port()))
    return tmp_path / "home"


def of(findings: list[Finding], subject: str) -> tuple[str, str]:
    """The gravest level of the subject's findings, and all they say."""
    found = [finding for finding in findings if finding.subject == subject]
    assert found, findings
    level = max((finding.level for finding in found), key=["ok", "note", "bad"].index)
    assert all(finding.mend for finding in found if finding.level != "ok"), found
    return level, " ".join(f"{finding.message} {finding.mend}" for finding in found)


class TestTrainer:
    @pytest.fixture
    def imposter(self) -> Iterator[Any]:
        """`imposter(body, date)`: the address of a web server that answers everything with that."""
        running = []

        def start(body: bytes, date: str) -> str:
            class Handler(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

                def date_time_string(self, timestamp: float | None = None) -> str:
                    return date

                def log_message(self, *_: object) -> None:
                    pass

            server = HTTPServer(("127.0.0.1", 0), Handler)
            running.append(server)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
            return f"http://127.0.0.1:{server.server_port}"

        yield start
        for server in running:
            server.shutdown()
            server.server_close()

    def test_all_is_well(self, start_sqlite_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        live = start_sqlite_server()
        monkeypatch.setenv("COLLAPSEWATCH_URL", live.url)
        monkeypatch.setenv("COLLAPSEWATCH_API_KEY", live.ingest_key)
        assert {finding.level for finding in look_at_trainer()} == {"ok"}

    def test_where_people_sign_in_reading_needs_a_key(
        self, start_sqlite_server: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        live = start_sqlite_server(login=True)
        monkeypatch.setenv("COLLAPSEWATCH_URL", live.url)
        monkeypatch.setenv("COLLAPSEWATCH_API_KEY", live.ingest_key)
        found = look_at_trainer()
        # A trainer that only sends lacks nothing.
        assert of(found, "key")[0] == "ok"
        level, told = of(found, "read key")
        assert (level, "is missing" in told, "COLLAPSEWATCH_READ_KEY" in told) == ("note", True, True)
        monkeypatch.setenv("COLLAPSEWATCH_READ_KEY", live.ingest_key)
        assert "is refused" in of(look_at_trainer(), "read key")[1]
        key = live.services.keyring.create(Purpose.read, project=None, label="")
        monkeypatch.setenv("COLLAPSEWATCH_READ_KEY", key)
        assert {finding.level for finding in look_at_trainer()} == {"ok"}

    def test_keys(self, start_sqlite_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        live = start_sqlite_server()
        monkeypatch.setenv("COLLAPSEWATCH_URL", live.url)
        level, words = of(look_at_trainer(), "key")
        assert (level, "keys create" in words) == ("bad", True)
        monkeypatch.setenv("COLLAPSEWATCH_API_KEY", live.worker_key)
        level, words = of(look_at_trainer(), "key")
        assert (level, "not for trainers" in words) == ("bad", True)
        monkeypatch.setenv("COLLAPSEWATCH_API_KEY", "cw_ingest_" + "x" * 43)
        level, words = of(look_at_trainer(), "key")
        assert (level, "refuses" in words) == ("bad", True)

    def test_no_server_and_another_server(self, imposter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLLAPSEWATCH_API_KEY", "cw_ingest_" + "x" * 43)
        monkeypatch.setenv("COLLAPSEWATCH_URL", f"http://127.0.0.1:{free_port()}")
        assert of(look_at_trainer(), "server")[0] == "bad"
        assert of(look_at_trainer(), "key")[0] == "note"
        monkeypatch.setenv("COLLAPSEWATCH_URL", imposter(b"<html>", "Sat, 21 Nov 2026 12:00:00 GMT"))
        level, words = of(look_at_trainer(), "server")
        assert (level, "something else" in words) == ("bad", True)

    def test_a_clock_that_is_wrong_and_another_version(
        self, imposter: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer = json.dumps({"status": "ok", "version": "9.9.9"}).encode()
        monkeypatch.setenv("COLLAPSEWATCH_URL", imposter(answer, "Thu, 01 Jan 2015 00:00:00 GMT"))
        level, words = of(look_at_trainer(), "clock")
        assert (level, "ahead of the server" in words, "NTP" in words) == ("bad", True, True)
        level, words = of(look_at_trainer(), "server")
        assert (level, "9.9.9" in words) == ("note", True)

    def test_the_spool(self, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (home / "spool" / "run").mkdir(parents=True)
        (home / "spool" / "run" / "segment").write_bytes(bytes(2 << 20))
        level, words = of(look_at_trainer(), "spool")
        assert (level, "2 MiB wait" in words, "sync" in words) == ("note", True, True)
        (tmp_path / "file").touch()
        monkeypatch.setenv("COLLAPSEWATCH_SPOOL", str(tmp_path / "file" / "spool"))
        assert of(look_at_trainer(), "spool")[0] == "bad"
        monkeypatch.setenv("COLLAPSEWATCH_MODE", "sometimes")
        assert of(look_at_trainer(), "settings")[0] == "bad"


class TestServer:
    def test_a_new_installation_has_nothing_bad(self) -> None:
        assert "bad" not in {finding.level for finding in look_at_server()}

    def test_the_schema(self, home: Path) -> None:
        database = Database(f"sqlite:///{home / 'collapsewatch.db'}")
        upgrade(database.engine)
        assert of(look_at_server(), "database")[0] == "ok"
        for revision, level, mend in (
            ("0001", "note", "next start"),
            ("9999", "bad", "upgrade collapsewatch"),
        ):
            with database.engine.begin() as connection:
                connection.execute(text("UPDATE alembic_version SET version_num = :it"), {"it": revision})
            found = of(look_at_server(), "database")
            assert (found[0], mend in found[1]) == (level, True)
        database.close()

    @pytest.mark.parametrize(
        ("variables", "subject", "level", "told"),
        [
            ({"LOGIN": "true"}, "login", "ok", "on this machine"),
            ({"HOST": ANYWHERE}, "login", "note", "unencrypted"),
            ({"LOGIN": "true", "PUBLIC_URL": "http://watch.internal"}, "login", "note", "docs/deploy.md"),
            ({"LOGIN": "true", "PUBLIC_URL": "http://localhost:7788"}, "login", "ok", "sign in"),
            ({"LOGIN": "true", "PUBLIC_URL": "https://watch.internal"}, "login", "ok", "sign in"),
            ({"LOGIN": "true", "PUBLIC_URL": "https://watch.internal"}, "proxy", "note", "TRUSTED_PROXIES"),
            ({"LOGIN": "true", "TRUSTED_PROXIES": "0.0.0.0/0"}, "proxy", "bad", "every address"),
            ({"INSECURE": "true"}, "login", "ok", "nobody signs in"),
            ({"INSECURE": "true", "HOST": ANYWHERE}, "address", "note", "COLLAPSEWATCH_INSECURE"),
            (
                {"LOGIN": "true", "OIDC_ISSUER": "http://127.0.0.1:9", "OIDC_CLIENT_ID": "x"},
                "provider",
                "bad",
                "OIDC_ISSUER",
            ),
        ],
        ids=str,
    )
    def test_how_people_sign_in(
        self,
        variables: dict[str, str],
        subject: str,
        level: str,
        told: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(f"COLLAPSEWATCH_{name}", value)
        found = of(look_at_server(), subject)
        assert (found[0], told in found[1]) == (level, True), found

    def test_a_database_that_is_away(self, monkeypatch: pytest.MonkeyPatch) -> None:
        url = f"postgresql://me:hidden@127.0.0.1:{free_port()}/cw"
        monkeypatch.setenv("COLLAPSEWATCH_DATABASE_URL", url)
        level, words = of(look_at_server(), "database")
        assert (level, "hidden" in words) == ("bad", False)

    def test_redis(self, fresh_redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLLAPSEWATCH_REDIS_URL", fresh_redis_url)
        assert of(look_at_server(), "redis")[0] == "ok"
        with redis.Redis.from_url(fresh_redis_url) as client:
            client.config_set("maxmemory", "100mb")
            client.config_set("maxmemory-policy", "allkeys-lru")
            try:
                level, words = of(look_at_server(), "redis")
            finally:
                client.config_set("maxmemory-policy", "noeviction")
                client.config_set("maxmemory", "0")
        assert (level, "noeviction" in words) == ("bad", True)
        monkeypatch.setenv("COLLAPSEWATCH_REDIS_URL", f"redis://127.0.0.1:{free_port()}")
        assert of(look_at_server(), "redis")[0] == "bad"

    def test_blobs_that_cannot_be_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("COLLAPSEWATCH_BLOB_URL", str(tmp_path / "file"))
        assert of(look_at_server(), "blobs")[0] == "bad"
        monkeypatch.setenv("COLLAPSEWATCH_BLOB_URL", "gs://bucket")
        assert of(look_at_server(), "blobs")[0] == "bad"

    def test_a_port_that_is_taken(self, start_sqlite_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        live = start_sqlite_server()
        monkeypatch.setenv("COLLAPSEWATCH_PORT", live.url.rpartition(":")[2])
        level, words = of(look_at_server(), "address")
        assert (level, "in use" in words) == ("note", True)

    def test_settings_that_cannot_be(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLLAPSEWATCH_PORT", "many")
        assert of(look_at_server(), "port")[0] == "bad"


class TestWorker:
    def test_the_key(self, start_sqlite_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        live = start_sqlite_server()
        monkeypatch.setenv("COLLAPSEWATCH_SERVER_URL", live.url)
        monkeypatch.setenv("COLLAPSEWATCH_WORKER_KEY", live.worker_key)
        assert of(look_at_worker(), "server")[0] == "ok"
        monkeypatch.setenv("COLLAPSEWATCH_WORKER_KEY", live.ingest_key)
        assert of(look_at_worker(), "key")[0] == "bad"
        monkeypatch.setenv("COLLAPSEWATCH_SERVER_URL", f"http://127.0.0.1:{free_port()}")
        assert of(look_at_worker(), "server")[0] == "bad"
        # Looking has changed nothing: no worker is known, and no job was touched.
        assert live.get("/service")["workers"] == []

    def test_a_gpu_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        torch = pytest.importorskip("torch")
        if torch.cuda.is_available():
            pytest.skip("there is a GPU here")
        assert of(look_at_worker(), "gpu")[0] == "ok"
        monkeypatch.setenv("COLLAPSEWATCH_DEVICE", "cuda")
        assert of(look_at_worker(), "gpu")[0] == "bad"

    def test_blobs_and_checkpoints(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert of(look_at_worker(), "blobs")[0] == "bad"
        assert of(look_at_worker(), "checkpoints")[0] == "note"
        monkeypatch.setenv("COLLAPSEWATCH_CHECKPOINT_ROOTS", str(tmp_path / "none"))
        assert of(look_at_worker(), "checkpoints")[0] == "bad"
        root = tmp_path / "root"
        (root / "step-1").mkdir(parents=True)
        monkeypatch.setenv("COLLAPSEWATCH_CHECKPOINT_ROOTS", str(root))
        assert of(look_at_worker(), "checkpoints")[0] == "note"
        (root / "step-1" / "config.json").write_text('{"model_type": "llama"}')
        (root / "step-1" / "pytorch_model.bin").write_bytes(b"pickle")
        level, words = of(look_at_worker(), "checkpoints")
        assert (level, "safetensors" in words) == ("bad", True)


class TestCommand:
    def test_it_exits_with_1_and_prints_json(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLLAPSEWATCH_URL", f"http://127.0.0.1:{free_port()}")
        answer = CliRunner().invoke(main.app, ["trainer", "--json"])
        assert answer.exit_code == 1
        rows = json.loads(answer.output)
        assert {"role": "trainer", "level": "bad", "subject": "server"}.items() <= rows[0].items()
        assert CliRunner().invoke(main.app, ["server"]).exit_code == 0
        assert CliRunner().invoke(main.app, ["plumber"]).exit_code == 2

    def test_an_extra_that_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(PROGRAMS, "worker", Program("x:app", "worker", ("no_such_module",)))
        answer = CliRunner().invoke(main.app, ["worker"])
        assert (answer.exit_code, "pip install 'collapsewatch[worker]'" in answer.output) == (1, True)
        # Nobody asked for it, so nobody misses it.
        assert "worker\n" not in CliRunner().invoke(main.app, []).output

    def test_a_check_that_breaks_stops_no_other(self, tmp_path: Path) -> None:
        def broken() -> Finding:
            raise KeyError("oh")

        found = list(go_through([("a", broken), ("b", lambda: room("b", tmp_path))]))
        assert [finding.subject for finding in found] == ["a", "b"]
        assert found[0].level == "bad"
