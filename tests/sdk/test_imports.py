import subprocess
import sys

import pytest

import collapsewatch


def modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; before = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before))",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stdout.split())


HEAVY = {
    "alembic", "fastapi", "numpy", "plotly", "psycopg", "redis", "scipy", "sklearn", "sqlalchemy",
    "starlette", "torch", "transformers", "uvicorn",
    "collapsewatch_server", "collapsewatch_worker", "collapsewatch_frontend",
}  # fmt: skip


@pytest.mark.parametrize(
    "code",
    [
        "import collapsewatch",
        "from collapsewatch import *",
        "import collapsewatch.cli",
        "import collapsewatch as c; c.filters, c.scoring, c.run, c.config, c.summary",
        "import collapsewatch.forwarders",
        "import collapsewatch.integrations.verl, collapsewatch.integrations.ragen",
        "import collapsewatch.integrations.openrlhf, collapsewatch.integrations.prime_rl",
        "import collapsewatch\nrun = collapsewatch.init(url='http://127.0.0.1:1')\n"
        "run.log_rollouts(1, prompts=['a'], responses=['b'])\nrun.log({'a': 1})\nrun.finish(0.2)",
    ],
)
def test_the_sdk_loads_nothing_heavy(code: str) -> None:
    assert not HEAVY & modules_after(code)


def test_the_bare_import_leaves_even_its_own_dependencies_for_later() -> None:
    loaded = modules_after("import collapsewatch")
    assert not {"httpx", "pydantic", "typer", "zstandard"} & loaded


def test_every_public_name_can_be_had() -> None:
    for name in collapsewatch.__all__:
        assert getattr(collapsewatch, name) is not None
    assert set(collapsewatch.__all__) <= set(dir(collapsewatch))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'log_rollout'"):
        collapsewatch.log_rollout  # type: ignore[attr-defined]  # noqa: B018


def test_the_version_is_the_installed_one() -> None:
    from importlib.metadata import version

    assert collapsewatch.__version__ == version("collapsewatch")
