"""Why a run goes on unscored although its batches come in: what its scorer takes is never there."""

from collections.abc import Sequence
from itertools import pairwise, takewhile
from math import gcd

from sqlalchemy.orm import Session

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE
from collapsewatch.contracts.scoring import ScorerConfig
from collapsewatch_server.repositories import batches

_MIN_STEPS = 3
_MAX_STEPS = 400
"""Newest batches that are looked at."""
_NUM_RESULTS = 10
"""So many results in a row without any evaluation are no accident."""
_NUM_TOLD = 4


def why_unscored(session: Session, run_pk: int, attempt_pk: int) -> str | None:
    """Why the attempt's newest batches are not scored, and none like them will be; none if some are."""
    newest = batches.newest_steps(session, run_pk, attempt_pk, 1)
    if not newest:
        return None
    scorer = ScorerConfig.model_validate(newest[0].scorer or {})
    if scorer.every_steps > 1:
        limit = min(2 * scorer.every_steps, _MAX_STEPS)
        found = batches.newest_steps(session, run_pk, attempt_pk, limit)
        alike = takewhile(lambda row: row.scorer == newest[0].scorer and not row.is_evaluated, found)
        if (reason := never_due([row.step for row in alike], scorer.every_steps)) is not None:
            return reason
    results = batches.newest_results(session, run_pk, attempt_pk, scorer.every_steps, _NUM_RESULTS)
    if len(results) < _NUM_RESULTS or any(result.is_evaluated for result in results):
        return None
    reasons = (why for name, why in results[0].absent.items() if _is_scope(name))
    return f"None of the newest {_NUM_RESULTS} batches was scored: {next(reasons, 'no reason was given')}."


def never_due(steps: Sequence[int], every_steps: int) -> str | None:
    """Why a trainer that logs such steps is never scored, as a sentence; none when one is, or will be.

    Args:
        steps: of its newest batches, the newest first.
        every_steps: the scorer takes the steps that it divides.
    """
    since = list(takewhile(lambda step: step % every_steps, dict.fromkeys(steps)))
    if len(since) < _MIN_STEPS:
        return None
    # All steps so far are the same modulo this divisor of `every_steps`, and due ones are 0.
    spacing = gcd(every_steps, *(later - earlier for later, earlier in pairwise(since)))
    # Evenly spaced steps that can be due are so at least once in `every_steps`; one may have been lost.
    if since[0] % spacing == 0 and len(since) < 2 * every_steps:
        return None
    named = ", ".join(str(step) for step in reversed(since[:_NUM_TOLD]))
    dots = "… " if len(since) > _NUM_TOLD else ""
    return (
        f"The scorer takes the steps that {every_steps} divides, and the trainer logs others: none of its "
        f"newest {len(since)} steps ({dots}{named}) is scored. Log such steps, or change `every_steps`."
    )


def _is_scope(name: str) -> bool:
    return name in (FIRST_TURN_SCOPE, "trajectory") or name.startswith("turn/")
