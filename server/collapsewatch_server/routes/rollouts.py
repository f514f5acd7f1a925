"""What the model wrote, at any step of a run."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query

from collapsewatch_server.reading import rollout_views as views
from collapsewatch_server.routes.runs import AttemptId
from collapsewatch_server.web.deps import READ_ERRORS, RunId, ServicesDep, StepPath, errors

router = APIRouter(prefix="/api/v1/runs/{run_id}", tags=["rollouts"], responses=errors(*READ_ERRORS, 429))

Step = Annotated[int | None, Query(ge=0, le=2**53, description="The last step when absent.")]
Index = Annotated[int, Path(ge=0, lt=10**9, description="Place in the step's batch, from 0.")]
Group = Annotated[str | None, Query(max_length=200, pattern=r"^[^\x00]*$", description="One prompt's.")]
Order = Literal["index", "reward", "-reward", "length", "-length"]
Text = Annotated[str, Query(min_length=1, max_length=200, description="Any case, any whitespace between.")]
Phrase = Annotated[str, Query(min_length=1, max_length=1000)]
Where = Literal["response", "prompt", "all"]


@router.get("/rollouts")
def list_rollouts(
    run_id: RunId,
    services: ServicesDep,
    step: Step = None,
    attempt: AttemptId = None,
    group: Group = None,
    order: Order = "index",
    offset: Annotated[int, Query(ge=0, lt=10**9)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> views.RolloutList:
    """Rollouts of one step in short, scored or not, and the steps before and after."""
    return services.rollouts.listed(
        run_id, step, attempt, group=group, order=order, offset=offset, limit=limit
    )


@router.get("/rollouts/{step}/{index}", responses=errors(410))
def get_rollout(
    run_id: RunId, step: StepPath, index: Index, services: ServicesDep, attempt: AttemptId = None
) -> views.RolloutDetail:
    """One rollout turn by turn, with the log-probs of its tokens where they are known."""
    return services.rollouts.one(run_id, step, index, attempt)


@router.get("/rollout-search")
def search_rollouts(
    run_id: RunId,
    services: ServicesDep,
    q: Text,
    where: Where = "response",
    attempt: AttemptId = None,
    from_step: Step = None,
    from_index: Annotated[int, Query(ge=0, lt=10**9)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> views.RolloutHits:
    """Rollouts that hold a text, newest step first.

    One call looks through batches for about a second; `next` says where the following call goes on.
    """
    start = None if from_step is None else views.Cursor(step=from_step, index=from_index)
    return services.rollout_search.hits(run_id, q, where, attempt, start=start, limit=limit)


@router.get("/template")
def get_template(
    run_id: RunId,
    services: ServicesDep,
    step: Step = None,
    attempt: AttemptId = None,
    phrase: Annotated[list[Phrase] | None, Query(max_length=8)] = None,
) -> views.TemplateShares:
    """The phrases that reasonings of different prompts share at a step, and their share over the steps."""
    return services.templates.shares(run_id, step, attempt, phrase or [])
