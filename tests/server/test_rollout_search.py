"""Text is found in the rollouts of any step, a stretch at a time, whatever its case and line breaks."""

from typing import Any

import pytest

from collapsewatch.blobs import pack_document
from collapsewatch_server.reading.rollout_finding import RolloutSearch
from collapsewatch_server.reading.rollout_search import Wanted, found_in
from collapsewatch_server.reading.rollout_views import Cursor
from collapsewatch_server.reading.traces import StoredRollout
from tests.server.live import LiveServer
from tests.server.test_rollouts import blob_key, rollout, send


def found(text: str, response: str, **more: Any) -> list[str]:
    """The first match and the number of all, on the way that a stored batch is searched."""
    wanted = Wanted(text, more.pop("where", "response"))
    one = StoredRollout.model_validate(rollout("g", response, **more))
    document = f'{{"rollouts":[{one.model_dump_json(exclude_none=True)}]}}'.encode()
    place = found_in(wanted, one) if wanted.may_be_in(document) else None
    return [] if place is None else [place.place, place.match[0], str(place.num_matches)]


@pytest.mark.parametrize(
    ("text", "response", "match"),
    [
        ("Let Me think", "so let me\n  THINK twice, let me think", "let me\n  THINK"),
        ('say "go"', 'I say "GO" now', 'say "GO"'),
        ("a\\b", "path a\\b here", "a\\b"),
        ("été", "un ÉTÉ", "ÉTÉ"),
        ("钥匙", "我们来看钥匙", "钥匙"),
        # Letters that are others of the same but for their case.
        ("skin", "\u017f\u212ain", "\u017f\u212ain"),
        ("step , by 钥 匙", "Step, by钥匙", "Step, by钥匙"),
        (".*", "literally .* and no pattern", ".*"),
        ("tab", "a\ttab\u0000", "tab"),
    ],
)
def test_a_text_is_found_whatever_case_and_whitespace(text: str, response: str, match: str) -> None:
    assert found(text, response)[:2] == ["response", match]


def test_what_is_not_there_is_not_found() -> None:
    assert found("let us", "let me think, us") == []
    assert found("a b", "ab") == []
    assert found("where", "x") == []
    assert found("where", "x", where="prompt") == ["prompt", "where", "1"]
    assert found("g", "g g", where="all") == ["prompt", "g", "3"]


def test_all_of_a_document_that_cannot_hold_the_text_is_passed_over() -> None:
    wanted = Wanted("the KEY", "response")
    assert wanted.may_be_in(b'{"response":"The key"}')
    assert not wanted.may_be_in(b'{"response":"the mat"}')


def test_hits_come_newest_first_with_what_stands_around_them(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for step in range(5):
        send(
            quiet,
            run_id,
            step,
            [
                rollout("a", f"{'b' * 80} the Key {step} {'c' * 200}", reward=0.5),
                rollout("b", "nothing" if step % 2 else "the key, the key"),
            ],
        )
    answer = quiet.get(f"/runs/{run_id}/rollout-search", q="the key")
    places = [(hit["step"], hit["index"]) for hit in answer["hits"]]
    assert places == [(4, 0), (4, 1), (3, 0), (2, 0), (2, 1), (1, 0), (0, 0), (0, 1)]
    assert (answer["next"], answer["num_steps"], answer["num_rollouts"]) == (None, 5, 10)
    hit = answer["hits"][0]
    assert hit["before"] == "b" * 59 + " "
    assert hit["match"] == "the Key"
    assert hit["after"] == f" 4 {'c' * 200}"[:120]
    assert (hit["turn"], hit["place"], hit["reward"], hit["group_id"]) == (0, "response", 0.5, "a")
    assert answer["hits"][1]["num_matches"] == 2
    refused = quiet.call("GET", f"/runs/{run_id}/rollout-search", params={"q": "  "})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid_request")


def test_a_search_goes_on_where_the_last_call_ended(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for step in range(4):
        send(quiet, run_id, step, [rollout("a", f"key {at}") for at in range(3)])

    def all_hits(**options: Any) -> tuple[list[tuple[int, int]], int]:
        search = RolloutSearch(quiet.services.database, quiet.services.blobs, **options)
        places: list[tuple[int, int]] = []
        at: Cursor | None = None
        num_steps = num_rollouts = 0
        for calls in range(1, 30):
            answer = search.hits(run_id, "key", "all", None, start=at, limit=2)
            places += [(hit.step, hit.index) for hit in answer.hits]
            at = answer.next
            num_steps += answer.num_steps
            num_rollouts += answer.num_rollouts
            if at is None:
                # Of a step that several calls share each rollout counts once, and so does the step.
                assert (num_steps, num_rollouts) == (4, 12)
                return places, calls
        raise AssertionError("it never ends")

    every = [(step, index) for step in (3, 2, 1, 0) for index in range(3)]
    assert all_hits()[0] == every
    # Without time for more, each call looks through one step.
    assert all_hits(look_seconds=0.0) == (every, 8)


def test_a_step_that_cannot_be_read_is_named(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for step in range(3):
        send(quiet, run_id, step, [rollout("a", f"key {step}")])
    quiet.services.blobs.write(blob_key(quiet, 1), b"not zstd")
    quiet.services.blobs.write(blob_key(quiet, 0), pack_document(b'{"rollouts":"key"}'))
    answer = quiet.get(f"/runs/{run_id}/rollout-search", q="key")
    assert [hit["step"] for hit in answer["hits"]] == [2]
    assert answer["unreadable_steps"] == [1, 0]
