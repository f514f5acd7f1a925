"""Numbers shared with a W&B run that is open in the same process, either way.

Source: wandb 0.31.0, `sdk/wandb_run.py` (`Run.log`) and `sdk/lib/module.py` (`set_global`), which puts the
open run's methods into the package.
"""

import math
import sys
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, get_args

from collapsewatch.boundary import Boundary, log
from collapsewatch.errors import InvalidInputError
from collapsewatch.settings import READ_KEY_HINT, Settings
from collapsewatch.wire import THREAD_NAMES, connect

if TYPE_CHECKING:
    import httpx

    from collapsewatch.training_run import Run

Mirror = Literal["from_wandb", "to_wandb", "both"]
PREFIX = "collapsewatch/"
SENT = {
    "first_turn": (
        "retrieval_accuracy", "retrieval_chance", "retrieval_skill", "mi_seq", "mi_normalised",
        "conditional_entropy", "reasoning_entropy", "diversity_ratio",
    ),
    "batch": ("valid_reasoning_rate", "reward_std", "zero_variance_fraction", "compression_distance_ratio"),
}  # fmt: skip
"""The metrics that go to W&B, by scope."""
ASK_SECONDS = 5.0
_TIMEOUT_SECONDS = 5.0
_MAX_WAITING = 10_000


def mirrored(run: "Run", settings: Settings, boundary: Boundary, mirror: str | None) -> None:
    """Ties the run to the W&B run of this process; does nothing when no mirror is asked for.

    Raises:
        InvalidInputError: no such mirror, or no W&B run is open.
    """
    if mirror is None or settings.mode == "disabled":
        return
    if mirror not in get_args(Mirror):
        raise InvalidInputError(f"`mirror` is one of {', '.join(get_args(Mirror))}, got {mirror!r}")
    wandb: Any = sys.modules.get("wandb")
    theirs = getattr(wandb, "run", None)
    if theirs is None:
        raise InvalidInputError("`mirror` needs a W&B run: call `wandb.init` before `collapsewatch.init`")
    tie = _Tie(run, theirs, settings, boundary, mirror)
    tie.put_between(wandb)


class _Tie:
    """Stands between the training and `wandb.log`."""

    def __init__(self, run: "Run", theirs: Any, settings: Settings, boundary: Boundary, mirror: str) -> None:
        self._run, self._settings, self._boundary = run, settings, boundary
        self._takes, self._gives = mirror != "to_wandb", mirror != "from_wandb" and settings.mode == "online"
        self._theirs = theirs
        self._log = theirs.log
        self._waiting: deque[dict[str, float]] = deque(maxlen=_MAX_WAITING)
        """What W&B has not been given yet, a step each."""
        self._next_step = dict.fromkeys(SENT, 0)
        self._lock = threading.Lock()

    def put_between(self, wandb: Any) -> None:
        """From now on, what is logged to W&B passes here."""
        self._theirs.log = self._logged
        if getattr(wandb.log, "__self__", None) is self._theirs:
            wandb.log = self._logged
        if not self._gives:
            return
        with suppress(Exception):
            # Only how W&B draws its axis hangs on this.
            self._theirs.define_metric(f"{PREFIX}*", step_metric=f"{PREFIX}step")
        self._run.before_end(self._give_rest)
        threading.Thread(target=self._watch, name=f"{THREAD_NAMES}mirror", daemon=True).start()

    def _logged(self, data: Any, *args: Any, **options: Any) -> Any:
        """`Run.log` of W&B: takes the numbers from what is logged, and adds a scored step to it."""
        given = data
        with self._boundary.guard("mirror"):
            if self._takes and isinstance(data, Mapping):
                step = options.get("step", args[0] if args else None)
                numbers = {name: value for name, value in data.items() if _is_number(name, value)}
                if numbers:
                    self._run.log(numbers, step=self._theirs.step if step is None else step)
            if isinstance(data, Mapping) and self._waiting:
                # Riding on the training's own calls leaves W&B's count of steps as it is.
                given = {**data, **self._waiting.popleft()}
        return self._log(given, *args, **options)

    def _watch(self) -> None:
        try:
            with connect(self._settings, reads=True) as client:
                while not self._run.ended.wait(ASK_SECONDS):
                    self._ask(client)
        except Exception as error:  # noqa: BLE001 - the SDK boundary: a run without its mirror goes on
            self._boundary.report("mirror", "nothing goes to W&B: %s: %s", type(error).__name__, error)

    def _ask(self, client: "httpx.Client") -> None:
        import httpx

        with self._lock:
            steps: dict[int, dict[str, float]] = {}
            for scope, metrics in SENT.items():
                query: dict[str, Any] = {
                    "scope": scope,
                    "metric": metrics,
                    "since_step": self._next_step[scope],
                }
                try:
                    response = client.get(
                        f"/api/v1/runs/{self._run.id}/series", params=query, timeout=_TIMEOUT_SECONDS
                    )
                    if response.status_code in (401, 403):
                        # Nobody would look for the reason, and W&B would stay empty for days.
                        self._boundary.report("mirror key", "nothing goes to W&B. %s", READ_KEY_HINT)
                    response.raise_for_status()
                    series = response.json()["series"]
                except (httpx.HTTPError, ValueError, LookupError) as error:
                    log.debug("no news of metrics: %s: %s", type(error).__name__, error)
                    continue
                for name, points in series.items():
                    for step, value in zip(points["steps"], points["values"], strict=True):
                        steps.setdefault(step, {})[f"{PREFIX}{name}"] = value
                        self._next_step[scope] = max(self._next_step[scope], step + 1)
            for step in sorted(steps):
                self._waiting.append({**steps[step], f"{PREFIX}step": float(step)})

    def _give_rest(self) -> None:
        """Gives W&B what is scored by the end of the run, in rows of its own."""
        with self._boundary.guard("mirror"), connect(self._settings, reads=True) as client:
            self._ask(client)
            while self._waiting:
                self._log(self._waiting.popleft())


def _is_number(name: object, value: object) -> bool:
    if not isinstance(name, str) or name.startswith(PREFIX) or isinstance(value, str | bytes | Mapping):
        return False
    try:
        return math.isfinite(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return False
