import re
import subprocess
import sys
from importlib.metadata import packages_distributions, requires, version
from pathlib import Path

import pytest

from collapsewatch.cli import PROGRAMS, Program

PROGRAM_MODULE = '''
import typer

app = typer.Typer()


@app.command()
def serve(name: str = "", port: int = typer.Option(7788, "--port", "-p"), quiet: bool = False) -> None:
    """Serves, says the fake."""
    print(name, port, quiet)


group = typer.Typer()


@group.command()
def create(project: str) -> None:
    print("created", project)


@group.command()
def revoke(key_id: int) -> None:
    """Revokes, says the fake."""
    raise SystemExit(5)
'''


def command(*arguments: str, setup: str = "") -> subprocess.CompletedProcess[str]:
    code = f"{setup}\nfrom collapsewatch import cli\ncli.main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def fake(tmp_path: Path) -> str:
    """Code that puts real typer applications in the place of `serve` and `keys`."""
    (tmp_path / "fake_program.py").write_text(PROGRAM_MODULE)
    return (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from collapsewatch import cli\n"
        "cli.PROGRAMS['serve'] = cli.Program('fake_program:app', 'server', ('fastapi',))\n"
        "cli.PROGRAMS['keys'] = cli.Program('fake_program:group', 'server', ('fastapi',))\n"
    )


def test_help_lists_every_subcommand_and_loads_none() -> None:
    done = command("--help", setup="import sys; sys.modules['collapsewatch_server'] = None")
    assert done.returncode == 0, done.stderr
    for name in (*PROGRAMS, "version"):
        assert name in done.stdout


def test_version_prints_the_installed_version() -> None:
    assert command("version").stdout.strip() == version("collapsewatch")


def test_a_program_of_one_command_takes_its_options_directly(fake: str) -> None:
    assert command("serve", "--port", "80", setup=fake).stdout.split() == ["80", "False"]
    assert command("serve", "-p", "81", "--name=x", "--quiet", setup=fake).stdout.split() == [
        "x",
        "81",
        "True",
    ]
    assert command("serve", setup=fake).stdout.split() == ["7788", "False"]


def test_a_program_of_several_commands_takes_them_as_words(fake: str) -> None:
    assert command("keys", "create", "mine", setup=fake).stdout == "created mine\n"
    assert command("keys", "revoke", "3", setup=fake).returncode == 5


def test_help_of_a_subcommand_is_the_programs_own(fake: str) -> None:
    done = command("serve", "--help", setup=fake)
    assert "Serves, says the fake." in done.stdout
    assert "collapsewatch serve" in done.stdout
    assert "--port" in done.stdout
    assert "Revokes, says the fake." in command("keys", "--help", setup=fake).stdout


def test_a_wrong_option_is_the_programs_usage_error(fake: str) -> None:
    done = command("serve", "--prot", "80", setup=fake)
    assert done.returncode == 2
    assert "--prot" in done.stderr


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("serve", "fastapi", "server"),
        ("keys", "sqlalchemy", "server"),
        ("worker", "torch", "worker"),
        ("demo", "rich", "demo"),
        ("import", "pyarrow", "import"),
    ],
)
def test_a_missing_extra_is_told_in_one_line(tmp_path: Path, name: str, module: str, extra: str) -> None:
    (tmp_path / "needy_program.py").write_text(f"import {module}")
    setup = f"""
import sys, importlib.abc
sys.path.insert(0, {str(tmp_path)!r})
sys.modules.pop({module!r}, None)
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition('.')[0] == {module!r}:
            raise ModuleNotFoundError(f"No module named {{fullname!r}}", name=fullname)
from collapsewatch import cli
import dataclasses
cli.PROGRAMS[{name!r}] = dataclasses.replace(cli.PROGRAMS[{name!r}], target='needy_program:app')
find_spec = cli.find_spec
cli.find_spec = lambda name: None if name == {module!r} else find_spec(name)
sys.meta_path.insert(0, Absent())
"""
    done = command(name, "--port", "80", setup=setup)
    assert done.returncode == 1
    assert done.stderr == f"`collapsewatch {name}` needs {module}: pip install 'collapsewatch[{extra}]'\n"
    assert done.stdout == ""


@pytest.mark.parametrize(
    "defect",
    [
        "import fastapi.no_such_part",
        "from fastapi import no_such_name",
        "import no_such_module",
        "import json.nope",
    ],
)
def test_a_defect_in_the_program_keeps_its_traceback(tmp_path: Path, defect: str) -> None:
    (tmp_path / "broken_program.py").write_text(defect)
    setup = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from collapsewatch import cli\n"
        "cli.PROGRAMS['serve'] = cli.Program('broken_program:app', 'server', cli.PROGRAMS['serve'].modules)\n"
    )
    done = command("serve", setup=setup)
    assert done.returncode == 1
    assert defect in done.stderr
    assert "Traceback" in done.stderr
    assert "pip install" not in done.stderr


def distributions_of(extra: str) -> set[str]:
    """What an extra names, by the metadata of what is installed; our own extras left out."""
    lines = [line.partition(";") for line in requires("collapsewatch") or []]
    wanted = [
        requirement for requirement, _, marker in lines if re.search(rf"extra == ['\"]{extra}['\"]", marker)
    ]
    named = {re.split(r"[\[<>=~! ]", requirement, maxsplit=1)[0] for requirement in wanted}
    return {normalised(name) for name in named} - {"collapsewatch"}


def normalised(distribution: str) -> str:
    """The name as the registries compare it: `prometheus_client` is `prometheus-client`."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_program_knows_a_module_of_every_requirement_of_its_extra(name: str) -> None:
    program = PROGRAMS[name]
    provided = packages_distributions()
    known = {normalised(name) for module in program.modules for name in provided.get(module, [])}
    required = distributions_of(program.extra)
    assert required
    assert required <= known


def test_programs_are_named_as_module_and_attribute() -> None:
    for program in PROGRAMS.values():
        assert isinstance(program, Program)
        assert re.fullmatch(r"[a-z_.]+:[a-z_]+", program.target)
