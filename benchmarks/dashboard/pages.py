"""What each product's page of a case is, and how a script sees that it has been drawn."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.dashboard.processes import PEERS_PYTHON, quiet_process, running_ours, wait_for_answer
from tests.servers import free_port

# Every plot in the window has its lines, and there are `least` of them. Where charts stand below the window,
# as under the table of a comparison, it is led to the first of them, as a person would scroll there.
_DRAWN = """({{least, lead}}) => {{
  const isSeen = (one) => {{
    const box = one.getBoundingClientRect();
    return box.width > 0 && box.bottom > 0 && box.top < innerHeight;
  }};
  const first = lead && document.querySelector(lead);
  if (first && first.getBoundingClientRect().top > innerHeight / 3) first.scrollIntoView();
  const seen = [...document.querySelectorAll('{plots}')].filter(isSeen);
  return seen.length >= least && seen.every((plot) => plot.querySelector('{lines}'));
}}"""
# Also a place that has no chart yet counts as a plot that is not drawn.
_OURS_DRAWN = _DRAWN.format(plots=".figure .plot", lines=".trace path, .gl-canvas")
_PLOTLY_DRAWN = _DRAWN.format(plots=".js-plotly-plot", lines=".trace path, .gl-canvas")
_VEGA_DRAWN = _DRAWN.format(plots=".vega-embed", lines="canvas, svg .mark-line path")
_ROWS_LISTED = "(selector) => document.querySelectorAll(selector).length > 0"


@dataclass(frozen=True)
class Screen:
    """One page to open."""

    address: str
    drawn: str
    """A function of the page's that says whether what was asked for is there."""
    argument: Any
    plot: str = ""
    """Selector of a chart that can be dragged."""


def plots(least: int, *, lead: str = "") -> dict[str, Any]:
    """What the functions above are asked: how many plots, and to which one the page is scrolled."""
    return {"least": least, "lead": lead}


@dataclass(frozen=True)
class Product:
    """One product with its running server."""

    name: str
    screens: dict[str, Screen]
    """By case: `long`, `many`, `compare`; a case that the product has no page for is left out."""


@contextmanager
def ours(home: Path, project: str, compared: list[str]) -> Iterator[Product]:
    """Our own server over what `fill_ours` wrote."""
    with running_ours(home) as url:
        runs = ",".join(compared)
        yield Product(
            "collapsewatch",
            {
                "long": Screen(
                    f"{url}/#/runs/long",
                    _OURS_DRAWN,
                    plots(2),
                    '[data-testid="figure-retrieval"] .js-plotly-plot',
                ),
                "many": Screen(f"{url}/#/?project={project}", _ROWS_LISTED, '[data-testid="run-row"]'),
                "compare": Screen(
                    f"{url}/#/compare?runs={runs}",
                    _OURS_DRAWN,
                    plots(2, lead='[data-testid="figure-compare-quadrant"]'),
                ),
            },
        )


@contextmanager
def trackio(folder: Path) -> Iterator[Product]:
    """trackio's own page over what `fill_peers` wrote."""
    port = free_port()
    script = f"import trackio; trackio.show(open_browser=False, server_port={port}, block_thread=True)"
    with quiet_process([str(PEERS_PYTHON), "-c", script], folder, {"TRACKIO_DIR": str(folder)}):
        url = f"http://127.0.0.1:{port}"
        wait_for_answer(url)
        yield Product(
            "trackio",
            {
                case: Screen(f"{url}/?project={case}", _VEGA_DRAWN, plots(1), ".vega-embed")
                for case in ("long", "compare")
            }
            | {"many": Screen(f"{url}/runs?project=many", _ROWS_LISTED, ".runs-table tbody tr")},
        )


@contextmanager
def mlflow(folder: Path, made: dict[str, Any]) -> Iterator[Product]:
    """MLflow's own page over what `fill_peers` wrote."""
    port = free_port()
    store = f"sqlite:///{folder / 'mlflow.db'}"
    command = [str(PEERS_PYTHON), "-m", "mlflow", "server", "--backend-store-uri", store]
    with quiet_process([*command, "--host", "127.0.0.1", "--port", str(port), "--workers", "1"], folder):
        url = f"http://127.0.0.1:{port}"
        wait_for_answer(url)
        experiments, run_id = made["experiments"], made["run_ids"]["long"][0]
        yield Product(
            "mlflow",
            {
                "long": Screen(
                    f"{url}/#/experiments/{experiments['long']}/runs/{run_id}/model-metrics",
                    _PLOTLY_DRAWN,
                    plots(1),
                    ".js-plotly-plot",
                ),
                "many": Screen(
                    f"{url}/#/experiments/{experiments['many']}/runs",
                    _ROWS_LISTED,
                    "[role=row] a[href*=runs]",
                ),
                "compare": Screen(
                    f"{url}/#/experiments/{experiments['compare']}/runs?compareRunsMode=CHART",
                    _PLOTLY_DRAWN,
                    plots(1),
                ),
            },
        )
