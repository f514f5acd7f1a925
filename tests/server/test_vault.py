"""Secrets in the database: of no use without the key, which is made once and handed to nobody."""

import stat
import threading
from pathlib import Path

import pytest
from pydantic import ValidationError

from collapsewatch_server.launch.embedded import worker_environment
from collapsewatch_server.notify.vault import Unsealable, Vault
from collapsewatch_server.settings import ServerSettings

CONTENT = {"url": "https://hooks.example/token", "secret": "only mine"}
KEY = "k" * 32


def test_what_is_sealed_is_opened_with_the_same_key_alone(tmp_path: Path) -> None:
    sealed = Vault(tmp_path, KEY).seal(CONTENT)
    assert "hooks" not in sealed
    assert Vault(tmp_path, KEY).open(sealed) == CONTENT
    assert Vault(tmp_path, KEY).seal(CONTENT) != sealed
    for other in (Vault(tmp_path, "K" * 32), Vault(tmp_path, None)):
        with pytest.raises(Unsealable, match="COLLAPSEWATCH_SECRET_KEY"):
            other.open(sealed)
    for changed in ("", sealed[:-4], sealed[:-5] + "AAAA=", "é"):
        with pytest.raises(Unsealable):
            Vault(tmp_path, KEY).open(changed)


def test_a_key_that_is_given_leaves_no_file(tmp_path: Path) -> None:
    Vault(tmp_path / "home", KEY).seal(CONTENT)
    assert not (tmp_path / "home").exists()


def test_servers_that_start_together_make_one_key_that_others_cannot_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    vaults = [Vault(home, None) for _ in range(16)]
    barrier = threading.Barrier(len(vaults))
    sealed: list[str] = []

    def seal(vault: Vault) -> None:
        barrier.wait()
        sealed.append(vault.seal(CONTENT))

    threads = [threading.Thread(target=seal, args=(vault,)) for vault in vaults]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in home.iterdir()] == ["secret.key"]
    assert stat.S_IMODE((home / "secret.key").stat().st_mode) == 0o600
    for one in sealed:
        assert Vault(home, None).open(one) == CONTENT


def test_a_damaged_key_file_is_said_so_and_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "secret.key").write_text("short\n")
    with pytest.raises(Unsealable, match="damaged"):
        Vault(tmp_path, None).seal(CONTENT)
    assert (tmp_path / "secret.key").read_text() == "short\n"


def test_a_key_is_long_and_in_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_SECRET_KEY", KEY)
    settings = ServerSettings()
    assert KEY not in repr(settings)
    monkeypatch.setenv("COLLAPSEWATCH_SECRET_KEY", "k" * 31)
    with pytest.raises(ValidationError, match="32"):
        ServerSettings()


def test_the_worker_is_not_given_the_key(tmp_path: Path) -> None:
    given = {"COLLAPSEWATCH_SECRET_KEY": KEY, "COLLAPSEWATCH_DATABASE_URL": "postgresql://x", "PATH": "/bin"}
    environment = worker_environment(ServerSettings(home=tmp_path), "http://127.0.0.1:1", "key", given)
    assert KEY not in environment.values()
    assert "COLLAPSEWATCH_DATABASE_URL" not in environment
    assert environment["PATH"] == "/bin"


def test_hosts_are_separated_by_commas_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_CHANNEL_HOSTS", " mail.lan:25, [fd00::1]:443 ,")
    assert ServerSettings().channel_hosts == ("mail.lan:25", "[fd00::1]:443")
    monkeypatch.setenv("COLLAPSEWATCH_CHANNEL_HOSTS", "http://mail.lan")
    with pytest.raises(ValidationError, match="a host is"):
        ServerSettings()
    monkeypatch.setenv("COLLAPSEWATCH_CHANNEL_HOSTS", "")
    monkeypatch.setenv("COLLAPSEWATCH_PUBLIC_URL", "")
    monkeypatch.setenv("COLLAPSEWATCH_SECRET_KEY", "")
    empty = ServerSettings()
    assert (empty.channel_hosts, empty.public_url, empty.secret_key) == ((), None, None)
    monkeypatch.setenv("COLLAPSEWATCH_PUBLIC_URL", "javascript:alert(1)")
    with pytest.raises(ValidationError, match="public_url"):
        ServerSettings()
