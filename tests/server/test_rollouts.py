"""Rollouts of a run as the API answers them, from batches that trainers sent."""

from typing import Any

import pytest
from sqlalchemy import select

from collapsewatch.blobs import pack_document
from collapsewatch_server.attempts import Segment
from collapsewatch_server.reading.rollouts import RolloutReading
from collapsewatch_server.repositories import rollouts as rows
from collapsewatch_server.tables import Batch
from tests.server.live import Json, LiveServer, result_body

HOSTILE = "<script>window.owned = 1</script>"


def rollout(group: str, response: str, **more: Any) -> Json:
    prompt = more.pop("prompt", f"where is {group}? <think>")
    return {"group_id": group, "turns": [{"prompt": prompt, "response": response}], **more}


def send(live: LiveServer, run_id: str, step: int, rollouts: list[Json], **more: Any) -> None:
    batch_id = more.pop("batch_id", f"b{step}")
    sent = live.send_batch(run_id, step, batch_id=batch_id, rollouts=rollouts, **more)
    assert sent.status_code == 202, sent.text


def blob_key(live: LiveServer, step: int) -> str:
    with live.services.database.read_session() as session:
        return session.scalars(select(Batch.blob_key).where(Batch.step == step)).one()


def test_rollouts_of_a_step_are_listed_in_short_before_they_are_scored(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    long = f"{HOSTILE}\n\n  then   go " + "x" * 500
    send(
        quiet,
        run_id,
        4,
        [rollout("a", long, reward=0.5, rollout_id="r-1"), rollout("b", "short", success=True)],
        policy_version="v4",
    )
    send(quiet, run_id, 7, [rollout("a", "later")])
    found = quiet.get(f"/runs/{run_id}/rollouts", step=4)
    assert (found["step"], found["attempt_id"], found["policy_version"]) == (4, "default", "v4")
    places = [found[name] for name in ("first_step", "previous_step", "next_step", "last_step")]
    assert places == [4, None, 7, 7]
    assert (found["num_rollouts"], found["num_found"], found["reason"]) == (2, 2, None)
    first, second = found["rollouts"]
    assert first["excerpt"] == f"{HOSTILE} then go {'x' * 500}"[:160]
    assert (first["index"], first["num_chars"], first["num_turns"]) == (0, len(long), 1)
    assert (first["rollout_id"], first["reward"], first["success"]) == ("r-1", 0.5, None)
    assert (second["group_id"], second["reward"], second["success"]) == ("b", None, True)
    # Without a step it is the last one.
    last = quiet.get(f"/runs/{run_id}/rollouts")
    assert (last["step"], last["previous_step"]) == (7, 4)


def test_rollouts_are_ordered_filtered_and_cut_into_pages(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    rewards = [0.2, None, 0.9, 0.5, 0.1]
    send(
        quiet,
        run_id,
        0,
        [rollout("ab"[at % 2], "w" * (at + 1), reward=reward) for at, reward in enumerate(rewards)],
    )

    def indices(**params: Any) -> list[int]:
        return [one["index"] for one in quiet.get(f"/runs/{run_id}/rollouts", **params)["rollouts"]]

    assert indices(order="reward") == [4, 0, 3, 2, 1]
    assert indices(order="-reward") == [2, 3, 0, 4, 1]
    assert indices(order="-length", limit=2) == [4, 3]
    assert indices(order="-length", limit=2, offset=2) == [2, 1]
    assert indices(group="b") == [1, 3]
    assert quiet.get(f"/runs/{run_id}/rollouts", group="b", limit=1)["num_found"] == 2
    assert indices(group="none such") == []


def test_one_rollout_is_read_turn_by_turn_and_what_a_prompt_repeats_is_left_out(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    first = {"prompt": "you see a door <think>", "response": "open it</think>open", "action": "open"}
    second = {
        "prompt": "you see a door <think>open it</think>open\nyou see a key <think>",
        "response": HOSTILE,
    }
    other = {"prompt": "a new episode", "reasoning": "as the trainer cut it"}
    send(
        quiet,
        run_id,
        1,
        [rollout("a", "other"), {"group_id": "g", "reward": 1.0, "turns": [first, second, other]}],
        temperature=0.7,
    )
    found = quiet.get(f"/runs/{run_id}/rollouts/1/1")
    assert (found["group_id"], found["reward"], found["temperature"]) == ("g", 1.0, 0.7)
    assert (found["index"], found["num_rollouts"], found["num_turns"]) == (1, 2, 3)
    assert (found["open_tag"], found["close_tag"]) == ("<think>", "</think>")
    one, two, three = found["turns"]
    assert (one["prompt"], one["prompt_repeats"]) == (first["prompt"], 0)
    assert (one["response"], one["action"]) == (first["response"], "open")
    repeats = len(first["prompt"] + first["response"])
    assert (two["prompt"], two["prompt_repeats"]) == ("\nyou see a key <think>", repeats)
    assert two["response"] == HOSTILE
    assert (three["prompt"], three["prompt_repeats"]) == ("a new episode", 0)
    assert (three["response"], three["reasoning"]) == (None, "as the trainer cut it")
    assert found["tokens_reason"] == "the step is not scored yet"
    refused = quiet.call("GET", f"/runs/{run_id}/rollouts/1/2")
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "rollout_not_found")
    assert "2 rollouts" in refused.json()["error"]["message"]


def test_long_texts_are_cut_and_say_so(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    prompt = "s" * 9_000 + "m" * 60_000 + "e" * 100
    send(quiet, run_id, 1, [rollout("a", "r" * 200_005, prompt=prompt)])
    (turn,) = quiet.get(f"/runs/{run_id}/rollouts/1/0")["turns"]
    assert len(turn["prompt"]) == 40_000
    assert turn["prompt_left_out"] == len(prompt) - 40_000
    assert turn["prompt"][: turn["prompt_gap"]] == "s" * 8_000
    assert turn["prompt"].endswith("e" * 100)
    assert (len(turn["response"]), turn["response_left_out"]) == (200_000, 5)


def test_sampled_log_probs_are_shown_beside_their_ids_where_no_text_is_known(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    turn = {
        "prompt_token_ids": [1, 2, 3],
        "response_token_ids": [7, 8],
        "response_log_probs": [-0.25, -1.23456],
    }
    send(quiet, run_id, 1, [{"group_id": "a", "turns": [turn]}])
    (shown,) = quiet.get(f"/runs/{run_id}/rollouts/1/0")["turns"]
    assert (shown["prompt"], shown["response"]) == (None, None)
    assert (shown["num_prompt_tokens"], shown["num_response_tokens"]) == (3, 2)
    (tokens,) = shown["tokens"]
    assert (tokens["source"], tokens["pieces"]) == ("sampler", None)
    assert (tokens["log_probs"], tokens["token_ids"]) == ([-0.25, -1.235], [7, 8])


def test_a_resumed_run_shows_the_rollouts_of_the_attempt_that_owns_the_step(quiet: LiveServer) -> None:
    run_id = quiet.start_run(attempt={"attempt_id": "one", "started_at": 1.0})
    for step in (0, 1, 2):
        send(quiet, run_id, step, [rollout("a", f"one {step}")], attempt_id="one", batch_id=f"one-{step}")
    body = {"run_id": run_id, "project": "p", "name": "n", "resume": "must"}
    again = {**body, "attempt": {"attempt_id": "two", "started_at": 2.0, "from_step": 2}}
    assert quiet.ingest("POST", "/runs", json=again).is_success
    send(quiet, run_id, 2, [rollout("a", "two 2")], attempt_id="two", batch_id="two-2")

    def excerpts(step: int, **params: Any) -> tuple[str, str]:
        found = quiet.get(f"/runs/{run_id}/rollouts", step=step, **params)
        return found["attempt_id"], found["rollouts"][0]["excerpt"]

    assert [excerpts(step) for step in (1, 2)] == [("one", "one 1"), ("two", "two 2")]
    assert excerpts(2, attempt="one") == ("one", "one 2")
    assert quiet.get(f"/runs/{run_id}/rollouts/2/0", attempt="one")["turns"][0]["response"] == "one 2"
    # Every step once, as the run's own series has it.
    hits = quiet.get(f"/runs/{run_id}/rollout-search", q="o")["hits"]
    assert [(hit["step"], hit["attempt_id"]) for hit in hits] == [(2, "two"), (1, "one"), (0, "one")]
    refused = quiet.call("GET", f"/runs/{run_id}/rollouts", params={"attempt": "three"})
    assert refused.json()["error"]["code"] == "attempt_not_found"


def test_of_a_step_sent_twice_the_batch_logged_last_is_read_and_shards_are_put_together(
    quiet: LiveServer,
) -> None:
    run_id = quiet.start_run()
    send(quiet, run_id, 1, [rollout("a", "newer")], batch_id="z", logged_at=20.0)
    send(quiet, run_id, 1, [rollout("a", "older")], batch_id="y", logged_at=10.0)
    assert quiet.get(f"/runs/{run_id}/rollouts", step=1)["rollouts"][0]["excerpt"] == "newer"
    for index, logged_at in ((2, 1.0), (0, 2.0), (1, 3.0)):
        send(
            quiet,
            run_id,
            2,
            [rollout("a", f"shard {index} {at}") for at in range(2)],
            batch_id=f"shard-{index}",
            shard={"index": index, "count": 3},
            logged_at=logged_at,
        )
    found = quiet.get(f"/runs/{run_id}/rollouts", step=2)["rollouts"]
    assert [(one["index"], one["excerpt"]) for one in found] == [
        (2 * index + at, f"shard {index} {at}") for index in range(3) for at in range(2)
    ]
    assert quiet.get(f"/runs/{run_id}/rollouts/2/3")["turns"][0]["response"] == "shard 1 1"


def test_what_cannot_be_read_is_said_and_the_rest_keeps_its_place(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for index in range(2):
        send(
            quiet,
            run_id,
            1,
            [rollout("a", f"shard {index}")],
            batch_id=f"s{index}",
            shard={"index": index, "count": 2},
        )
    with quiet.services.database.read_session() as session:
        statement = select(Batch.blob_key).where(Batch.step == 1, Batch.shard_index == 0)
        key = session.scalars(statement).one()
    quiet.services.blobs.write(key, pack_document(b"[]"))
    found = quiet.get(f"/runs/{run_id}/rollouts", step=1)
    assert [(one["index"], one["excerpt"]) for one in found["rollouts"]] == [(1, "shard 1")]
    assert found["reason"] == "parts of the batch of step 1 are missing here: 1 of 2 not readable"
    refused = quiet.call("GET", f"/runs/{run_id}/rollouts/1/0").json()["error"]
    assert (refused["code"], refused["message"]) == (
        "rollout_not_found",
        "the batch of step 1 is not readable",
    )
    quiet.services.blobs.delete(key)
    assert "1 of 2 no longer stored" in quiet.get(f"/runs/{run_id}/rollouts", step=1)["reason"]
    small = RolloutReading(quiet.services.database, quiet.services.blobs, max_bytes=10)
    options: Json = {"group": None, "order": "index", "offset": 0, "limit": 10}
    reason = small.listed(run_id, 1, None, **options).reason
    assert reason is not None
    assert "too large" in reason


def test_a_step_or_run_without_rollouts_is_not_found(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for path, code in (
        ("/runs/none/rollouts", "run_not_found"),
        (f"/runs/{run_id}/rollouts", "step_not_found"),
        (f"/runs/{run_id}/rollouts/3/0", "step_not_found"),
        (f"/runs/{run_id}/template", "step_not_found"),
    ):
        refused = quiet.call("GET", path)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, code)
    assert quiet.get(f"/runs/{run_id}/rollout-search", q="x") == {
        "hits": [],
        "next": None,
        "num_steps": 0,
        "num_rollouts": 0,
        "unreadable_steps": [],
        "num_removed_steps": 0,
    }


def test_steps_are_spread_evenly_with_the_first_and_the_last(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for step in range(0, 22, 2):
        send(quiet, run_id, step, [rollout("a", "x")])
    with quiet.services.database.read_session() as session:
        run_pk = session.scalars(select(Batch.run_pk)).first()
        assert run_pk is not None
        lineage = [Segment(0, None, session.scalars(select(Batch.attempt_pk)).first() or 0)]
        spread = [rows.spread_steps(session, run_pk, lineage, most) for most in (2, 3, 5, 11, 100)]
        assert rows.spread_steps(session, run_pk, [], 5) == []
    assert spread[0] == [0, 20]
    assert spread[1] == [0, 10, 20]
    assert spread[2] == [0, 6, 12, 18, 20]
    assert spread[3] == spread[4] == list(range(0, 22, 2))


@pytest.mark.parametrize("scored", [True, False])
def test_log_probs_that_a_scorer_gave_are_shown_with_the_text_of_their_tokens(
    quiet: LiveServer, scored: bool
) -> None:
    run_id = quiet.start_run()
    response = "<think>so it is</think>go"
    turn = {
        "prompt": "where?",
        "response": response,
        "response_token_ids": [1, 2, 3, 4, 5],
        "response_log_probs": [-9.0, -0.5, -0.25, -9.0, -9.0],
    }
    own = {"rollout": 0, "turn": 0, "log_probs": [-12, -340], "lengths": [2, 6], "start": 7, "first_token": 1}
    result = result_body(token_log_probs=[own] if scored else [])
    if not scored:
        result["absent"] = {"token_log_probs": "the engine sends sums alone"}
    quiet.score(run_id, 1, result, rollouts=[{"group_id": "g", "turns": [turn]}])
    found = quiet.get(f"/runs/{run_id}/rollouts/1/0")
    series = {one["source"]: one for one in found["turns"][0]["tokens"]}
    if not scored:
        assert found["tokens_reason"] == "the engine sends sums alone"
        assert list(series) == ["sampler"]
        assert series["sampler"]["pieces"] is None
        return
    assert found["tokens_reason"] is None
    assert series["scorer"]["log_probs"] == [-0.12, -3.4]
    assert series["scorer"]["label"] == "reference: tiny"
    # The trainer's own numbers of the same tokens share their text.
    assert series["sampler"]["log_probs"] == [-0.5, -0.25]
    for one in series.values():
        assert one["pieces"] == ["so", " it is"]
        assert (one["before"], one["after"]) == ("<think>", "</think>go")
        assert one["before"] + "".join(one["pieces"]) + one["after"] == response


def test_a_deleted_run_leaves_no_log_probs_behind(quiet: LiveServer, wait_until: Any) -> None:
    live = quiet
    run_id = live.start_run()
    own = {"rollout": 0, "turn": 0, "log_probs": [-12]}
    live.score(run_id, 1, result_body(token_log_probs=[own]), rollouts=[rollout("g", "x</think>")])
    folder = live.services.settings.home / "blobs"

    def stored() -> set[str]:
        return {path.relative_to(folder).parts[0] for path in folder.rglob("*") if path.is_file()}

    assert stored() == {"batches", "tokens"}
    assert live.call("DELETE", f"/runs/{run_id}").is_success
    wait_until(lambda: not stored(), "all blobs are gone")
