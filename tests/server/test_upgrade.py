"""What was accepted by an earlier version of the server is known to a later one."""

import pytest

from collapsewatch.contracts.rollouts import ReasoningTags, RolloutBatch
from collapsewatch_server.auth import Caller, Purpose
from collapsewatch_server.errors import BatchConflict
from tests.server.live import LiveServer, batch_body


class LaterTags(ReasoningTags):
    nested: bool = False


class LaterBatch(RolloutBatch):
    """A batch as a later version knows it."""

    priority: int = 3
    reasoning_tags: LaterTags = LaterTags()


def test_a_batch_sent_again_after_an_upgrade_is_the_same_batch(live: LiveServer) -> None:
    run_id = live.start_run()
    live.send_batch(run_id, 1)
    services = live.services
    run, project = services.runs.open_run(Caller(1, Purpose.ingest, None), run_id)
    assert services.batches.add(run, project, LaterBatch.model_validate(batch_body(1))).duplicate
    with pytest.raises(BatchConflict):
        services.batches.add(run, project, LaterBatch.model_validate(batch_body(1, priority=4)))
