"""What a link lets its holder read: each route of links names one of these, and checks nothing itself."""

from typing import Annotated

from fastapi import Depends, Path, Query, Request
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.errors import NotShared
from collapsewatch_server.services import Services
from collapsewatch_server.sharing.desk import OpenShare
from collapsewatch_server.web.deps import DEFAULT_SCOPE, ComparedRunIds, RunId, ScopeQuery

Token = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9_-]{20,200}$", description="Last part of the link's address.")
]
MetricNames = Annotated[
    list[Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$")]] | None, Query(max_length=500)
]


async def server_of(request: Request) -> Services:
    """The services of the process, also where the link shows a snapshot."""
    services: Services = request.app.state.services
    return services


ServerDep = Annotated[Services, Depends(server_of)]


async def opened(request: Request, token: Token) -> OpenShare:
    """The link, if it is good. From here on the request reads its snapshot, where it has one.

    Raises:
        ShareNotFound, ShareEnded: it is not.
    """
    services: Services = request.app.state.services
    share = await run_in_threadpool(_open, services, token, request.state.sender.address)
    if share.snapshot_key is not None:
        snapshots = services.shares.snapshots
        request.state.frozen_services = await run_in_threadpool(snapshots.services, share.snapshot_key)
    return share


def _open(services: Services, token: str, address: str) -> OpenShare:
    with services.throttle.guesses.of_share(address):
        return services.shares.open(token)


Opened = Annotated[OpenShare, Depends(opened)]


async def of_anything(share: Opened) -> None:
    """Comes back for every link that is good."""


async def of_live(share: Opened) -> None:
    """Comes back for a link that shows runs as they are now."""
    if share.snapshot_key is not None:
        raise NotShared("a snapshot does not change")


async def of_run(run_id: RunId, share: Opened) -> None:
    """Comes back when the link shows this run, or something of it."""
    if run_id not in share.run_ids:
        raise NotShared("this link does not show that run")


async def of_whole_run(run_id: RunId, share: Opened) -> None:
    """Comes back when the link shows all of this run."""
    await of_run(run_id, share)
    if share.limits is not None:
        raise NotShared("this link shows one chart")


async def of_series(
    run_id: RunId, share: Opened, scope: ScopeQuery = DEFAULT_SCOPE, metric: MetricNames = None
) -> None:
    """Comes back when the link shows these series of this run."""
    await of_run(run_id, share)
    if share.limits is None:
        return
    shown = share.limits.series.get(scope, [])
    if not metric or not set(metric) <= set(shown):
        raise NotShared("this link shows one chart; name metrics of it")


async def of_trajectory(run_id: RunId, share: Opened, scope: ScopeQuery = DEFAULT_SCOPE) -> None:
    """Comes back when the link shows this run's way through the quadrant."""
    await of_run(run_id, share)
    if share.limits is not None and scope not in share.limits.trajectories:
        raise NotShared("this link shows another chart")


async def of_runs(run_ids: ComparedRunIds, share: Opened) -> None:
    """Comes back when the link shows all of these runs."""
    for run_id in run_ids:
        await of_whole_run(run_id, share)


async def of_compared(
    run_ids: ComparedRunIds,
    share: Opened,
    group_by: Annotated[list[str], Query(max_length=20)] = [],  # noqa: B006 (the framework copies it)
) -> None:
    """Comes back when the link shows all of these runs, or something of each, and may group them so."""
    for run_id in run_ids:
        await of_run(run_id, share)
    if share.limits is not None and not set(group_by) <= set(share.limits.group_by):
        raise NotShared("this link shows one chart, whose runs are not grouped by that")


async def of_compared_series(
    _: Annotated[None, Depends(of_compared)],
    share: Opened,
    scope: ScopeQuery = DEFAULT_SCOPE,
    metric: MetricNames = None,
    axis: str = "step",
) -> None:
    """Comes back when the link shows these series of these runs."""
    if share.limits is None:
        return
    if not set(metric or ()) <= set(share.limits.series.get(scope, [])):
        raise NotShared("this link shows one chart; name metrics of it")
    if axis == "tokens" and not share.limits.tokens:
        raise NotShared("this link shows one chart, which does not stand on tokens")


async def of_compared_paths(
    _: Annotated[None, Depends(of_compared)], share: Opened, scope: ScopeQuery = DEFAULT_SCOPE
) -> None:
    """Comes back when the link shows the ways of these runs through the quadrant."""
    if share.limits is not None and scope not in share.limits.trajectories:
        raise NotShared("this link shows another chart")


async def of_rollouts(run_id: RunId, share: Opened) -> None:
    """Comes back when the link shows what the model wrote in this run."""
    await of_whole_run(run_id, share)
    if not share.with_rollouts:
        raise NotShared("this link does not show what the model wrote")
