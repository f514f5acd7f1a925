"""How a run is opened: its start, on which all processes of a launch agree."""

import uuid
from collections.abc import Sequence
from typing import Literal

from collapsewatch.arguments import Scorer, scorer_config, validated
from collapsewatch.boundary import Boundary
from collapsewatch.contracts.runs import AttemptStart, RunStart
from collapsewatch.errors import InvalidInputError
from collapsewatch.launcher import Launch, identity
from collapsewatch.plain import json_config, plain_step
from collapsewatch.settings import Settings

Resume = Literal["allow", "must", "never"]


def run_start(
    settings: Settings,
    launch: Launch,
    *,
    project: str,
    name: str | None,
    config: object,
    tags: Sequence[str] | None,
    scorer: Scorer | None,
    run_id: str | None,
    resume: Resume,
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


def warn_scattered(boundary: Boundary, settings: Settings, launch: Launch, run_id: str | None) -> None:
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
