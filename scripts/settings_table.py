"""Writes the settings table of the README from the settings classes: `python scripts/settings_table.py`."""

from pathlib import Path

from pydantic_settings import BaseSettings

from collapsewatch.settings import ENVIRONMENT
from collapsewatch_server.settings import ServerSettings
from collapsewatch_worker.settings import WorkerSettings

README = Path(__file__).parents[1] / "README.md"
BEGIN = "<!-- settings: written by scripts/settings_table.py -->"
END = "<!-- /settings -->"


def shown_default(value: object) -> str:
    """A default as a person would type it; a dash where there is none."""
    if value is None or value == ():
        return "–"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`"


def rows_of(settings: type[BaseSettings], who: str) -> dict[str, tuple[str, str, str]]:
    """Variable → who reads it, default, explanation."""
    return {
        f"COLLAPSEWATCH_{name.upper()}": (who, shown_default(field.default), field.description or "")
        for name, field in settings.model_fields.items()
    }


def settings_table() -> str:
    """The whole table in Markdown. A variable that server and worker explain alike is one row."""
    lines = ["| variable | read by | default | meaning |", "|---|---|---|---|"]
    server, worker = rows_of(ServerSettings, "server"), rows_of(WorkerSettings, "worker")
    for name, (who, default, meaning) in server.items():
        if worker.get(name, ("", "", ""))[1:] == (default, meaning):
            who = "server, worker"
            del worker[name]
        lines.append(f"| `{name}` | {who} | {default} | {meaning} |")
    lines += [
        f"| `{name}` | {who} | {default} | {meaning} |" for name, (who, default, meaning) in worker.items()
    ]
    lines += [f"| `{name}` | SDK | – | {meaning}. |" for name, meaning in ENVIRONMENT.items()]
    return "\n".join(lines)


def with_table(readme: str) -> str:
    """The README with a fresh table between its two marks."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{settings_table()}\n\n{END}{after}"


if __name__ == "__main__":
    README.write_text(with_table(README.read_text()))
