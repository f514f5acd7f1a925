"""What the importer sends: each step once, with the same id whenever it is sent."""

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collapsewatch.asking.reader import ServerReader
from collapsewatch.contracts.rollouts import ReasoningTags, RolloutBatch
from collapsewatch.contracts.runs import RunStart, RunState
from collapsewatch.importers import sending
from collapsewatch.importers.plan import Plan, run_start_of
from collapsewatch.importers.scoring import Scoring
from collapsewatch.importers.sending import BatchOptions, RunSender, sender_of
from collapsewatch.importers.steps import ImportFailedError, Place, Step, rollout_of
from collapsewatch.settings import Settings
from tests.sdk.conftest import Answer, Recorder, Seen


def step_of(number: int, *, text: str = "z", count: int = 4, **fields: Any) -> Step:
    rollouts = [
        rollout_of(
            group_id=f"g{n % 2}", turns=[{"prompt": "p <think>", "response": f"{text} {n} </think> a"}]
        )
        for n in range(count)
    ]
    return Step(number, rollouts, Place(Path("f.jsonl"), 1), **fields)


@pytest.fixture
def start(tmp_path: Path) -> RunStart:
    (tmp_path / "run.jsonl").write_text("")
    return run_start_of(Plan(tmp_path / "run.jsonl", "recorded", "project", None), step_of(0))


@pytest.fixture
def settings(recorder: Recorder, tmp_path: Path) -> Settings:
    return Settings(url=recorder.url, api_key="k", retry_seconds=0.01, max_retry_seconds=0.05)


Import = Callable[..., RunSender]


@pytest.fixture
def send(start: RunStart, settings: Settings) -> Import:
    """Imports steps; returns the sender that has done so."""

    def do(*steps: Step, known: set[str] | None = None, **options: Any) -> RunSender:
        with sender_of(
            start,
            settings,
            known=known or set(),
            options=BatchOptions(**options),
            scoring=None,
            tell=lambda line: None,
        ) as sender:
            for step in steps:
                sender.send(step)
        return sender

    return do


def test_a_run_is_opened_filled_and_finished(send: Import, recorder: Recorder, start: RunStart) -> None:
    sender = send(step_of(0, values={"kl": 0.5}), step_of(7, policy_version="v7"), temperature=0.7)
    assert recorder.of("/runs")[0].body["run_id"] == start.run_id
    batches = recorder.batches()
    assert [(batch.step, batch.policy_version, batch.temperature) for batch in batches] == [
        (0, None, 0.7),
        (7, "v7", 0.7),
    ]
    assert recorder.scalars() == {0: {"kl": 0.5}}
    assert [update.state for update in recorder.updates()] == [RunState.running, RunState.finished]
    assert (sender.num_sent, sender.num_known) == (2, 0)


def test_the_same_steps_are_the_same_batches_to_the_byte(send: Import, recorder: Recorder) -> None:
    send(step_of(0), step_of(1))
    send(step_of(0), step_of(1))
    first, second = recorder.batches()[:2], recorder.batches()[2:]
    assert first == second
    # The server compares what is in a batch: a time of sending would make another one of it.
    assert all(batch.logged_at is None for batch in first)
    assert first[0].attempt_id == second[0].attempt_id


@pytest.mark.parametrize("other", [step_of(1), step_of(0, text="y"), step_of(0, policy_version="v")])
def test_other_content_or_another_step_is_another_batch(
    send: Import, recorder: Recorder, other: Step
) -> None:
    send(step_of(0), other)
    ids = [batch.batch_id for batch in recorder.batches()]
    assert len(set(ids)) == 2


def test_what_the_server_has_is_not_sent_again(send: Import, recorder: Recorder) -> None:
    send(step_of(0, values={"kl": 1.0}), step_of(1))
    known = {batch.batch_id for batch in recorder.batches()}
    num_before = len(recorder.of("/batches")) + len(recorder.of("/scalars"))
    sender = send(step_of(0, values={"kl": 1.0}), step_of(1), known=known)
    assert len(recorder.of("/batches")) + len(recorder.of("/scalars")) == num_before
    assert (sender.num_sent, sender.num_known) == (0, 2)


def test_tags_and_reward_range_go_with_every_batch(send: Import, recorder: Recorder) -> None:
    send(step_of(0), reasoning_tags=ReasoningTags(open="<a>", close="</a>"), reward_range=(-1.0, 2.0))
    [batch] = recorder.batches()
    assert (batch.reasoning_tags.open, batch.reward_min, batch.reward_max) == ("<a>", -1.0, 2.0)


def test_a_step_that_is_too_large_for_one_request_goes_in_shards(
    send: Import, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = step_of(3, count=10)
    whole = len(json.dumps(step.rollouts[0].model_dump(mode="json"))) * 10
    monkeypatch.setattr(sending, "MAX_PART_BYTES", whole // 3)
    send(step)
    batches = recorder.batches()
    assert 1 < len(batches) < 10
    shards = [batch.shard for batch in batches if batch.shard is not None]
    assert [shard.index for shard in shards] == list(range(len(batches)))
    assert {shard.count for shard in shards} == {len(batches)}
    assert [rollout for batch in batches for rollout in batch.rollouts] == step.rollouts
    assert len({batch.batch_id for batch in batches}) == len(batches)


def test_a_server_that_is_slow_is_waited_for_and_nothing_is_given_up(
    start: RunStart,
    settings: Settings,
    offline_recorder: Recorder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "_MAX_SPOOL_BYTES", 200_000)
    settings = dataclasses.replace(settings, max_spool_bytes=2**20)
    with sender_of(
        start, settings, known=set(), options=BatchOptions(), scoring=None, tell=lambda line: None
    ) as sender:
        for number in range(60):
            sender.send(step_of(number, text="x" * 20_000))
    batches = offline_recorder.batches()
    # Four times what the spool may hold went through it.
    assert sum(len(batch.model_dump_json()) for batch in batches) > 4 * 2**20
    assert [batch.step for batch in batches] == list(range(60))


@pytest.mark.parametrize("num_steps", [1, 60])
def test_a_key_that_is_not_taken_ends_the_import(send: Import, recorder: Recorder, num_steps: int) -> None:
    body = json.dumps({"error": {"message": "this key is another project's"}})
    recorder.answers = lambda seen: Answer(403, body=body) if seen.path.endswith("/runs") else None
    with pytest.raises(ImportFailedError, match="nothing more will be sent"):
        send(*(step_of(n) for n in range(num_steps)))


def test_a_batch_that_is_refused_is_told(send: Import, recorder: Recorder) -> None:
    def answers(seen: Seen) -> Answer | None:
        is_second = seen.path.endswith("/batches") and RolloutBatch.model_validate(seen.body).step == 1
        return Answer(422) if is_second else None

    recorder.answers = answers
    with pytest.raises(ImportFailedError, match="batches rejected 1"):
        send(step_of(0), step_of(1), step_of(2))
    assert [batch.step for batch in recorder.batches()] == [0, 1, 2]


def test_an_import_that_breaks_off_says_that_it_failed(send: Import, recorder: Recorder) -> None:
    class Torn:
        number = 1

    with pytest.raises(AttributeError):
        send(step_of(0), Torn())
    assert recorder.updates()[-1].state is RunState.failed


class FakeReader(ServerReader):
    """Answers with the jobs of a run as they were put in, the last for ever."""

    def __init__(self, *jobs: dict[str, int]) -> None:
        self.url = "http://server"
        self.jobs = list(jobs)

    def run(self, run_id: str) -> dict[str, Any] | None:
        return {"jobs": self.jobs.pop(0) if len(self.jobs) > 1 else self.jobs[0]}

    def complaints(self) -> list[str]:
        return ["worker: none runs"]


def scoring_of(reader: ServerReader, **options: Any) -> tuple[Scoring, list[tuple[int, int]]]:
    seen: list[tuple[int, int]] = []
    return Scoring(reader, "r", on_change=lambda *n: seen.append(n), tell=lambda line: None, **options), seen


def test_the_scoring_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collapsewatch.importers.scoring._POLL_SECONDS", 0.001)
    jobs = [{"done": n, "queued": 3 - n, "leased": 0, "dead": 0} for n in range(4)]
    scoring, seen = scoring_of(FakeReader(*jobs))
    scoring.wait(0)
    assert seen == [(0, 3), (1, 2), (2, 1), (3, 0)]
    assert scoring.num_waiting == 0


def test_scoring_that_makes_no_progress_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collapsewatch.importers.scoring._POLL_SECONDS", 0.001)
    scoring, _ = scoring_of(FakeReader({"done": 0, "queued": 3, "leased": 0}), stall_seconds=0.05)
    with pytest.raises(ImportFailedError, match="3 batches wait: does a worker run for http://server"):
        scoring.wait(0)
    assert not math.isinf(scoring.num_waiting)
