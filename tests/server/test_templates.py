"""The shared phrases of a step, and the share of the responses that have them at every step."""

from itertools import pairwise

import pytest

from collapsewatch_server.reading.phrase_shares import (
    MAX_RESPONSES,
    coarse_first,
    distinct,
    first_responses,
    num_with,
    phrase_words,
)
from collapsewatch_server.reading.templates import TemplateReading
from collapsewatch_server.reading.traces import StoredRollout
from tests.server.live import Json, LiveServer, result_body
from tests.server.test_rollouts import blob_key, rollout, send

PHRASES = [("let me think , step by step", 8), ("go to the door", 5)]


def evidence(phrases: list[tuple[str, int]]) -> Json:
    return {
        "phrases": [
            {"text": text, "num_words": len(text.split()), "coverage": 0.9, "num_prompts": num}
            for text, num in phrases
        ],
        "min_words": 4,
        "min_prompts": 4,
        "num_prompts": 8,
        "num_reasonings": 64,
    }


def thinking(num: int, of: int) -> list[Json]:
    """Rollouts of which some have the first phrase, and one the second."""
    texts = ["So: Let me  think,\nstep by step </think>"] * num + ["outlet me think, step by step"] * (
        of - num
    )
    texts[-1] += ". Go to the door"
    return [rollout(f"g{at}", text) for at, text in enumerate(texts)]


def test_a_phrase_is_counted_at_every_step_by_its_words(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for step, num in ((0, 0), (3, 2), (9, 4)):
        quiet.score(run_id, step, result_body(template_evidence=evidence(PHRASES)), rollouts=thinking(num, 4))
    found = quiet.get(f"/runs/{run_id}/template", step=3)
    assert (found["step"], found["steps"], found["num_rollouts"]) == (3, [0, 3, 9], [4, 4, 4])
    assert (found["num_prompts"], found["min_prompts"], found["min_words"]) == (8, 4, 4)
    assert (found["is_complete"], found["reason"]) == (True, None)
    told = [(one["text"], one["num_prompts"], one["shares"]) for one in found["phrases"]]
    assert told == [
        ("let me think , step by step", 8, [0.0, 0.5, 1.0]),
        ("go to the door", 5, [0.25, 0.25, 0.25]),
    ]
    # Another step ranks them by its own shares.
    first = quiet.get(f"/runs/{run_id}/template", step=0)["phrases"][0]
    assert first["text"] == "go to the door"
    # Any phrase may be counted; it comes first, whatever its share.
    asked = quiet.get(f"/runs/{run_id}/template", phrase=["… Outlet ME think."])["phrases"]
    assert asked[0]["shares"] == [1.0, 0.5, 0.0]
    assert asked[0]["num_prompts"] is None
    assert len(asked) == 3


def test_a_step_without_a_template_says_why(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    send(quiet, run_id, 0, thinking(1, 2))
    found = quiet.get(f"/runs/{run_id}/template")
    assert found["reason"].startswith("the step is not scored yet")
    assert (found["phrases"], found["is_complete"]) == ([], True)
    job = quiet.claim()
    assert quiet.done(job["job_id"], result_body(template_evidence=evidence([])))
    assert "of 4 prompts" in quiet.get(f"/runs/{run_id}/template")["reason"]
    absent = {"compression_distance_ratio": "the reasonings came as token ids, without text"}
    quiet.score(run_id, 1, result_body(absent=absent), rollouts=thinking(1, 2))
    assert quiet.get(f"/runs/{run_id}/template")["reason"] == absent["compression_distance_ratio"]


def test_counting_goes_on_where_time_ran_out_and_nothing_is_read_twice(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for step in range(4):
        quiet.score(run_id, step, result_body(template_evidence=evidence(PHRASES)), rollouts=thinking(1, 2))
    services = quiet.services
    reading = TemplateReading(services.database, services.blobs, read_seconds=0.0)
    found = reading.shares(run_id, 2, None, [])
    assert not found.is_complete
    assert found.num_rollouts == [None, None, 2, None]
    assert found.phrases[0].shares == [None, None, 0.5, None]
    patient = TemplateReading(services.database, services.blobs)
    assert patient.shares(run_id, 2, None, []).phrases[0].shares == [0.5] * 4
    # What was counted is known for ever: the batches may be gone.
    for step in range(4):
        services.blobs.delete(blob_key(quiet, step))
    again = patient.shares(run_id, 2, None, [])
    assert (again.phrases[0].shares, again.is_complete) == ([0.5] * 4, True)
    # Another phrase was not counted, and now cannot be; nobody waits for it.
    other = patient.shares(run_id, 2, None, ["never counted"])
    assert (other.phrases[0].shares, other.is_complete) == ([None] * 4, True)


def test_a_long_run_is_counted_at_steps_spread_over_it(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for step in range(45):
        send(quiet, run_id, step, thinking(step % 2, 2))
    found = quiet.get(f"/runs/{run_id}/template", step=13, phrase=["let me think"])
    steps = found["steps"]
    assert len(steps) <= 40
    assert {0, 13, 44} <= set(steps)
    assert max(after - before for before, after in pairwise(steps)) <= 2
    assert found["phrases"][0]["shares"] == [step % 2 / 2 for step in steps]


def test_signs_at_the_ends_of_a_phrase_say_nothing() -> None:
    assert phrase_words(". we should pick a ,") == "we should pick a"
    assert phrase_words("Pick, a safe mo…") == "pick , a safe"
    assert phrase_words("# _ #") == "_"
    assert phrase_words("# #") == "# #"


def test_of_phrases_that_hold_each_other_the_first_stays() -> None:
    assert distinct(["a b c", "b c", "x a b c", "c a b", "bc d", ""]) == ["a b c", "c a b", "bc d"]


@pytest.mark.parametrize("num", [0, 1, MAX_RESPONSES, MAX_RESPONSES + 1, 1000])
def test_of_a_large_batch_responses_are_taken_evenly(num: int) -> None:
    rollouts = [StoredRollout.model_validate(rollout("g", f"number {at}")) for at in range(num)]
    responses = first_responses(rollouts)
    assert len(responses) <= MAX_RESPONSES
    assert len(responses) >= min(num, MAX_RESPONSES // 2)
    if num:
        assert responses[0] == " number 0 "
        assert num_with(responses, "number 0") == 1
        assert num_with(responses, "number") == len(responses)


def test_the_first_steps_to_be_counted_are_spread_over_all() -> None:
    assert coarse_first(list(range(9))) == [0, 8, 4, 2, 6, 1, 3, 5, 7]
    assert sorted(coarse_first(list(range(37)))) == list(range(37))
    assert coarse_first([5]) == [5]
    assert coarse_first([]) == []
