"""How a run is opened: its start, on which all processes of a launch agree."""

import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from collapsewatch.arguments import Scorer, scorer_config, validated
from collapsewatch.boundary import Boundary, is_strict
from collapsewatch.contracts.runs import AttemptStart, RunStart
from collapsewatch.current import set_current
from collapsewatch.errors import InvalidInputError
from collapsewatch.launcher import Launch, identity, launch_of
from collapsewatch.mirror import Mirror, mirrored
from collapsewatch.names import random_run_name
from collapsewatch.plain import described, json_config, plain_step
from collapsewatch.settings import Mode, Settings, load_settings
from collapsewatch.training_run import Run

Resume = Literal["allow", "must", "never"]
_KEPT_OF_WANDB = ("group", "job_type", "notes")
"""Arguments of `wandb.init` that describe the run: they become entries of its config."""
_IGNORED_OF_WANDB = frozenset(
    {
        "allow_val_change", "anonymous", "config_exclude_keys", "config_include_keys", "dir", "entity",
        "force", "fork_from", "magic", "monitor_gym", "reinit", "resume_from", "save_code", "settings",
        "sync_tensorboard", "tensorboard",
    }
)  # fmt: skip
"""Those that say nothing here."""


def init(
    project: str | None = None,
    name: str | None = None,
    *,
    config: object = None,
    tags: Sequence[str] | None = None,
    url: str | None = None,
    api_key: str | None = None,
    scorer: Scorer | None = None,
    run_id: str | None = None,
    resume: Resume | bool | Literal["auto"] | None = "allow",
    from_step: int | None = None,
    mode: Mode | Literal["shared"] | None = None,
    mirror: Mirror | None = None,
    **of_wandb: Any,
) -> Run:
    """A run that is being sent to the server in the background.

    Never raises and never waits for the network: when an argument cannot be used, the reason is logged and
    the run comes back disabled (`COLLAPSEWATCH_STRICT=1` raises instead). In a distributed training, call it
    in rank 0, or in every rank that has something to log: ranks that torchrun or Slurm started open the same
    run, other ranks need the same `run_id`.

    What processes that are gone could not send to this server is sent in the background as well.

    Args:
        project: else `COLLAPSEWATCH_PROJECT`, else `"default"`.
        name: a readable one is drawn when it is absent; `run_id` serves when that is given.
        config: hyperparameters: a mapping, dataclass, pydantic model or `argparse.Namespace`.
        url: the server; else `COLLAPSEWATCH_URL`, else the local server.
        api_key: project key; else `COLLAPSEWATCH_API_KEY`, else the local server's, for that server only.
        scorer: who scores the batches; a plain `"lexical"` when absent. See `Run.set_scorer`.
        run_id: the id of an earlier run, to go on with it; it must have the same project and name. Else
            `COLLAPSEWATCH_RUN_ID`.
        resume: `"must"` takes only a run that is there, `"never"` only a new one, `"allow"` both.
        from_step: first step that this start replays or adds. From there on it supersedes earlier starts of
            the run; from the first step that is logged when absent.
        mode: `"offline"` keeps everything on disk until `collapsewatch sync`, `"disabled"` makes every call
            do nothing; else `COLLAPSEWATCH_MODE`, else `"online"`.
        mirror: with the W&B run that is open in this process: `"from_wandb"` takes over the numbers that it
            is given, `"to_wandb"` gives it what is measured here, `"both"` does both.
        of_wandb: further arguments of `wandb.init`: `id` is `run_id`; `group`, `job_type` and `notes` become
            entries of the config; the others change nothing.
    """
    boundary = Boundary(strict=is_strict())
    with boundary.guard("init", level=logging.ERROR):
        settings = load_settings(url=url, api_key=api_key, mode="online" if mode == "shared" else mode)
        launch = launch_of()
        run_id = run_id or of_wandb.pop("id", None)
        start = _run_start(
            settings,
            launch,
            project=(settings.project or "default") if project is None else project,
            name=settings.name if name is None else name,
            config=_with_wandb(config, of_wandb),
            tags=settings.tags if tags is None else tags,
            scorer=scorer,
            run_id=run_id,
            resume="allow" if resume in (None, True, False, "auto") else resume,
            from_step=from_step,
        )
        if settings.mode != "disabled":
            _warn_scattered(boundary, settings, launch, run_id)
        run = Run(start, settings, boundary, launch)
        set_current(run)
        with boundary.guard("mirror"):
            mirrored(run, settings, boundary, mirror or settings.mirror)
        return run
    # Reached when the block above failed and said why.
    start = RunStart(run_id=uuid.uuid4().hex, project="default", name=random_run_name())
    run = Run(start, Settings(url="", mode="disabled"), boundary)
    set_current(run)
    return run


def _with_wandb(config: object, of_wandb: Mapping[str, Any]) -> dict[str, Any]:
    """The config with what W&B's arguments say of the run.

    Raises:
        InvalidInputError: an argument that neither library has.
    """
    for name in of_wandb:
        if name not in _IGNORED_OF_WANDB and name not in _KEPT_OF_WANDB:
            raise InvalidInputError(f"`init` has no argument {name!r} (given {described(of_wandb[name])})")
    told = {name: of_wandb[name] for name in _KEPT_OF_WANDB if of_wandb.get(name) is not None}
    return {**told, **json_config(config)}


def _run_start(
    settings: Settings,
    launch: Launch,
    *,
    project: str,
    name: str | None,
    config: object,
    tags: Sequence[str] | None,
    scorer: Scorer | None,
    run_id: str | None,
    resume: Any,
    from_step: int | None,
) -> RunStart:
    """The record that opens the run.

    Raises:
        InvalidInputError: an argument that cannot be used.
    """
    run_id = run_id or settings.run_id
    if resume == "must" and run_id is None and launch.run_key is None:
        raise InvalidInputError('`resume="must"` needs the `run_id` to go on with')
    ids = identity(launch, project=project, name=name, run_id=run_id, attempt_id=settings.attempt_id)
    attempt = validated(
        AttemptStart,
        attempt_id=ids.attempt_id,
        started_at=ids.started_at,
        from_step=None if from_step is None else plain_step(from_step),
    )
    return validated(
        RunStart,
        run_id=ids.run_id,
        project=project,
        name=ids.name,
        config=json_config(config),
        tags=[] if tags is None else tags,
        scorer=None if scorer is None else scorer_config(scorer),
        resume=resume,
        attempt=attempt,
        writer_id=uuid.uuid4().hex,
    )


def _warn_scattered(boundary: Boundary, settings: Settings, launch: Launch, run_id: str | None) -> None:
    """Says so when this process cannot tell that it belongs to others that log as well.

    Rank 0 is silent: it usually logs alone.
    """
    if not launch.rank:
        return
    where = f"rank {launch.rank} of {launch.num_processes}"
    if run_id is None and settings.run_id is None and launch.run_key is None:
        boundary.report(
            "scattered ranks",
            "%s opens a run of its own, for it cannot tell which run the other ranks open: give all of them "
            "the same `run_id`, or set COLLAPSEWATCH_RUN_ID",
            where,
        )
    elif settings.attempt_id is None and launch.attempt_key is None:
        boundary.report(
            "scattered attempts",
            "%s cannot tell that the other ranks were started with it, so each supersedes the others: set "
            "COLLAPSEWATCH_ATTEMPT_ID to the same new id in all of them",
            where,
        )
