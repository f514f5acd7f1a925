"""Backups of either database, restored into either: all comes back, and what is no backup changes nothing."""

import resource
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import JSON, select, text
from typer.testing import CliRunner

from collapsewatch.blobs import FolderBlobStore
from collapsewatch_server.accounts.audit import AT_THE_MACHINE
from collapsewatch_server.accounts.audit_reading import AuditReading
from collapsewatch_server.backup import archive, keeping, tables
from collapsewatch_server.backup.archive import BadArchive
from collapsewatch_server.backup.upgrades import back_up_before_upgrade
from collapsewatch_server.backup_command import backup_app, restore_app
from collapsewatch_server.db import Database
from collapsewatch_server.migrations import UnknownSchema, newest_revision, upgrade, upgrade_within
from collapsewatch_server.tables import Base
from tests.server.live import LiveServer, result_body
from tests.server.team import PASSWORD, team_of

Rows = dict[str, list[dict[str, Any]]]
NewDatabase = Callable[[str], Database]


@pytest.fixture
def new_database(tmp_path: Path, postgres_server: Any, request: pytest.FixtureRequest) -> NewDatabase:
    """`new_database("sqlite" | "postgresql")`: one with nothing in it."""

    def make(kind: str) -> Database:
        url = f"sqlite:///{tmp_path / 'restored.db'}" if kind == "sqlite" else postgres_server.new_database()
        database = Database(url)

        def end() -> None:
            database.close()
            if kind == "postgresql":
                postgres_server.drop(url)

        request.addfinalizer(end)
        return database

    return make


def filled(live: LiveServer) -> str:
    """A run with scored and unscored batches, scalars and characters that text could trip over."""
    run_id = live.start_run(name="ünï \u2028 'quoted' \\ %s", config={"none": None, "deep": {"a": [1, 2.5]}})
    for step in range(3):
        live.send_batch(run_id, step)
    for _ in range(2):
        assert live.done(live.claim()["job_id"], result_body())
    scalars = {"points": [{"step": 1, "values": {"kl": 1e-300}}]}
    assert live.ingest("POST", f"/runs/{run_id}/scalars", json=scalars).is_success
    return run_id


def rows_of(database: Database) -> Rows:
    with database.engine.connect().execution_options(begin="BEGIN") as connection:
        found = {}
        for table in tables.tables_of(connection):
            # By the types of SQLAlchemy, so that both databases answer alike.
            plain = [column for column in table.columns if not isinstance(column.type, JSON)]
            json = [column for column in table.columns if isinstance(column.type, JSON)]
            query = select(*plain, *json).order_by(*table.primary_key.columns)
            found[table.name] = [dict(row._mapping) for row in connection.execute(query)]
        return found


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_was_kept_comes_back_in_either_database(
    live: LiveServer, kind: str, new_database: NewDatabase, tmp_path: Path
) -> None:
    filled(live)
    path = tmp_path / "kept.tar"
    made = keeping.back_up(live.services.database, live.services.blobs, path)
    assert (made.num_blobs, made.missing_blobs) == (3, [])
    assert path.stat().st_mode & 0o777 == 0o600
    store = FolderBlobStore(tmp_path / "restored-blobs")
    target = new_database(kind)
    assert keeping.restore(target, store, path) == made
    before, after = rows_of(live.services.database), rows_of(target)
    assert before == after
    assert sum(map(len, after.values())) > 20
    for batch in after["batches"]:
        assert store.read(batch["blob_key"]) == live.services.blobs.read(batch["blob_key"])


def test_a_restored_service_goes_on_where_it_was(
    live: LiveServer, start_server: Any, new_database: NewDatabase, tmp_path: Path
) -> None:
    run_id = filled(live)
    path = tmp_path / "kept.tar"
    keeping.back_up(live.services.database, live.services.blobs, path)
    home = tmp_path / "other"
    restored = new_database("postgresql")
    keeping.restore(restored, FolderBlobStore(home / "blobs"), path)
    url = restored.url.set(drivername="postgresql").render_as_string(hide_password=False)
    other = start_server(home=home, database_url=url)
    other.ingest_key = live.ingest_key
    detail = other.get(f"/runs/{run_id}")
    assert detail["name"] == live.get(f"/runs/{run_id}")["name"]
    # New rows get ids of their own, a batch that came before is known, and the old one is still to be scored.
    assert other.send_batch(run_id, 3).status_code == 202
    assert live.send_batch(run_id, 2).json()["duplicate"] == other.send_batch(run_id, 2).json()["duplicate"]
    assert [other.claim()["step"] for _ in range(2)] == [2, 3]


def test_rows_that_many_parts_hold_all_come_back(
    live: LiveServer, new_database: NewDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(live)
    monkeypatch.setattr(tables, "_ROWS_PER_PART", 2)
    path = tmp_path / "kept.tar"
    made = keeping.back_up(live.services.database, live.services.blobs, path)
    parts = [name for name, _ in archive.members(path) if name.startswith("tables/metric_points/")]
    assert len(parts) == -(-made.rows["metric_points"] // 2) > 2
    target = new_database("sqlite")
    keeping.restore(target, FolderBlobStore(tmp_path / "b"), path)
    assert rows_of(target) == rows_of(live.services.database)


def test_a_blob_that_is_gone_is_counted_and_the_rest_is_kept(live: LiveServer, tmp_path: Path) -> None:
    filled(live)
    services = live.services
    with services.database.read_session() as session:
        key = session.scalar(text("SELECT blob_key FROM batches WHERE step = 1"))
    assert key is not None
    services.blobs.delete(key)
    made = keeping.back_up(services.database, services.blobs, tmp_path / "kept.tar")
    assert (made.num_blobs, made.missing_blobs) == (2, [key])
    assert archive.check(tmp_path / "kept.tar") == made


def test_a_database_that_holds_something_is_left_alone(live: LiveServer, tmp_path: Path) -> None:
    filled(live)
    path = tmp_path / "kept.tar"
    services = live.services
    keeping.back_up(services.database, services.blobs, path)
    before = rows_of(services.database)
    with pytest.raises(keeping.NotEmpty, match="tables already"):
        keeping.restore(services.database, services.blobs, path)
    assert rows_of(services.database) == before
    with pytest.raises(FileExistsError):
        keeping.back_up(services.database, services.blobs, path)


class TestDamage:
    """On SQLite alone: what is refused is refused before a database is asked."""

    @pytest.fixture
    def kept(self, tmp_path: Path) -> Path:
        database = Database(f"sqlite:///{tmp_path / 'a.db'}")
        upgrade(database.engine)
        with database.write_session() as session:
            session.execute(text("INSERT INTO projects (name, created_at) VALUES ('p', 1.5)"))
        path = tmp_path / "kept.tar"
        keeping.back_up(database, FolderBlobStore(tmp_path / "blobs"), path)
        database.close()
        return path

    def refused(self, path: Path, tmp_path: Path) -> str:
        target = Database(f"sqlite:///{tmp_path / 'target.db'}")
        with pytest.raises((BadArchive, UnknownSchema)) as error:
            keeping.restore(target, FolderBlobStore(tmp_path / "restored"), path)
        assert rows_of(target) == {}
        assert not (tmp_path / "restored").exists()
        target.close()
        return str(error.value)

    def test_every_cut_and_every_changed_byte_of_content_is_seen(self, kept: Path, tmp_path: Path) -> None:
        whole = kept.read_bytes()
        with tarfile.open(kept) as tar:
            members = [(member.offset_data, member.size) for member in tar]
        for num_bytes in (0, 100, *(start + size - 1 for start, size in members)):
            kept.write_bytes(whole[:num_bytes])
            assert self.refused(kept, tmp_path)
        for start, size in members[1:]:
            place = start + size // 2
            kept.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            assert self.refused(kept, tmp_path)

    def test_files_of_other_kinds(self, tmp_path: Path) -> None:
        other = tmp_path / "other.tar"
        with tarfile.open(other, "w") as tar:
            tar.add(__file__, "readme.txt")
        assert "no backup of collapsewatch" in self.refused(other, tmp_path)
        other.write_text("hello")
        assert "no backup" in self.refused(other, tmp_path)

    def test_a_backup_of_a_later_version(self, kept: Path, tmp_path: Path) -> None:
        later = tmp_path / "later.tar"
        manifest = archive.Manifest("9.9", "9999", 0.0, has_blobs=True)
        with archive.ArchiveWriter(later, manifest) as writer:
            writer.finish(archive.Contents())
        assert "does not know" in self.refused(later, tmp_path)

    def test_a_disk_that_fills_up_leaves_nothing_behind(self, tmp_path: Path, kept: Path) -> None:
        database = Database(f"sqlite:///{tmp_path / 'a.db'}")
        # Connected already: SQLite's own files would not fit either.
        assert rows_of(database)
        unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
        for num_bytes in (100, 2000, 4000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, unlimited[1]))
            try:
                with pytest.raises(OSError, match="File too large"):
                    keeping.back_up(database, None, tmp_path / "full" / "b.tar")
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
            assert list((tmp_path / "full").iterdir()) == []
        database.close()


def test_rows_are_kept_before_an_upgrade_and_can_be_restored(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'old.db'}")
    assert back_up_before_upgrade(database, tmp_path) is None
    with database.engine.begin() as connection:
        upgrade_within(connection, "0001")
        connection.execute(text("INSERT INTO projects (name, created_at) VALUES ('p', 1.5)"))
    path = back_up_before_upgrade(database, tmp_path)
    assert path is not None
    assert archive.read_manifest(path).revision == "0001"
    upgrade(database.engine)
    assert back_up_before_upgrade(database, tmp_path) is None
    target = Database(f"sqlite:///{tmp_path / 'target.db'}")
    keeping.restore(target, FolderBlobStore(tmp_path / "blobs"), path)
    assert rows_of(target) == rows_of(database)
    with target.engine.connect().execution_options(begin="BEGIN") as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == newest_revision()
    target.close()
    database.close()


def test_the_commands(live: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(live)
    settings = live.services.settings
    monkeypatch.setenv("COLLAPSEWATCH_DATABASE_URL", settings.effective_database_url)
    monkeypatch.setenv("COLLAPSEWATCH_BLOB_URL", settings.effective_blob_url)
    file = str(tmp_path / "kept.tar")
    made = CliRunner().invoke(backup_app, [file, "--home", str(settings.home)])
    assert (made.exit_code, "holds it" in made.output) == (0, True), made.output
    again = CliRunner().invoke(backup_app, [file, "--home", str(settings.home)])
    assert (again.exit_code, "exists already" in again.output) == (1, True)
    monkeypatch.delenv("COLLAPSEWATCH_DATABASE_URL")
    monkeypatch.delenv("COLLAPSEWATCH_BLOB_URL")
    home = ["--home", str(tmp_path / "new-home")]
    back = CliRunner().invoke(restore_app, [file, *home])
    assert (back.exit_code, "3 blobs are back" in back.output) == (0, True), back.output
    for kept, action in (
        (live.services.settings.effective_database_url, "backup.make"),
        (None, "backup.restore"),
    ):
        url = kept or f"sqlite:///{tmp_path / 'new-home' / 'collapsewatch.db'}"
        with closing(Database(url)) as database:
            page = AuditReading(database).page(before_id=None, limit=1, project_id=None, action=None)
        (entry,) = page.entries
        assert (entry.actor, entry.action, entry.target) == (AT_THE_MACHINE, action, file)
    twice = CliRunner().invoke(restore_app, [file, *home])
    assert (twice.exit_code, "nothing was restored" in twice.output) == (1, True)


def test_text_that_was_removed_on_purpose_is_missing_nowhere(live: LiveServer, tmp_path: Path) -> None:
    filled(live)
    with live.services.database.write_session() as session:
        session.execute(text("UPDATE batches SET blob_key = '' WHERE step = 0"))
    made = keeping.back_up(live.services.database, live.services.blobs, tmp_path / "kept.tar")
    assert (made.num_blobs, made.missing_blobs) == (2, [])


def test_people_come_back_and_have_to_sign_in_anew(tmp_path: Path) -> None:
    with team_of({"home": tmp_path / "home"}) as team:
        olga, path = team.operator("olga"), tmp_path / "kept.tar"
        team.member("ann", p="admin")
        olga.ok("POST", "/invitations", {"label": "for Ida", "makes_operator": False})
        olga.ok("PUT", f"/projects/{team.project('p')}/retention", {"text_days": 30, "run_days": None})
        made = keeping.back_up(team.services.database, None, path)
        assert "login_sessions" not in made.rows
        restored = Database(f"sqlite:///{tmp_path / 'other' / 'collapsewatch.db'}")
        keeping.restore(restored, FolderBlobStore(tmp_path / "blobs"), path)
        before, after = rows_of(team.services.database), rows_of(restored)
        restored.close()
        for table in ("accounts", "memberships", "invitations", "audit_log", "project_retention"):
            assert after[table] == before[table] != [], table
    with team_of({"home": tmp_path / "other"}) as again:
        cookies = dict(olga.client.cookies)
        assert cookies
        browser = again.browser()
        browser.client.cookies.update(cookies)
        assert browser.refusal("GET", "/accounts") == (401, "unauthorised")
        browser.ok("POST", "/session", {"name": "olga", "password": PASSWORD})
        assert browser.ok("GET", "/session")["is_operator"]


def test_every_column_that_names_a_blob_is_known_to_the_backup() -> None:
    database_columns = {
        f"{table.name}.{column.name}"
        for table in Base.metadata.tables.values()
        for column in table.columns
        if column.name.endswith("_key") and column.name not in tables.BLOB_KEY_COLUMNS
    }
    assert database_columns == set()
