"""Cutting turns into prompt, reasoning and action."""

from collections.abc import Sequence
from typing import Any

import pytest

from collapsewatch.contracts.rollouts import ReasoningTags, Rollout, RolloutBatch, Turn
from collapsewatch_worker.batches.partition import (
    EMPTY,
    EMPTY_PROMPT,
    NO_MATCH,
    NOT_CUT,
    TEXT_BEFORE,
    UNCLOSED,
    PartitionedTurn,
    Tokenizer,
    partition_batch,
)

WORDS = [
    *("<pad>", "<bos>", "<eos>", "<think>", "</think>", "<answer>", "</answer>"),
    *("sky", "me", "goal", "up", "down", "i", "am", "here", ".", "two"),
]
IDS = {word: number for number, word in enumerate(WORDS)}


class WordTokenizer:
    """One token a word; decoding joins by spaces, as word-level tokenizers do."""

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        return [IDS[word] for word in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(WORDS[token] for token in ids)


class PieceTokenizer:
    """Pieces of bytes, each as long as possible, merged across tag borders as byte-pair encoders do."""

    pieces = (
        *[bytes([byte]) for byte in range(256)],
        b"ay</",
        b"think",
        b">\n",
        b"<th",
        b"\n<",
        b"go",
    )

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        data, ids = text.encode(), []
        while data:
            piece = max((p for p in self.pieces if data.startswith(p)), key=len)
            ids.append(self.pieces.index(piece))
            data = data[len(piece) :]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(self.pieces[token] for token in ids).decode(errors="replace")


WORD, PIECE = WordTokenizer(), PieceTokenizer()
PROMPT = "<bos> sky me goal <think>"
RESPONSE = "i am here . </think> <answer> up </answer> <eos>"
TAG_IDS: dict[str, Any] = {"open_token_ids": [IDS["<think>"]], "close_token_ids": [IDS["</think>"]]}


def ids(text: str) -> list[int]:
    return WORD.encode(text)


def cut(turn: dict[str, Any], tokenizer: Tokenizer | None = None, **tags: Any) -> PartitionedTurn:
    batch = RolloutBatch(
        batch_id="b",
        step=0,
        rollouts=[Rollout(group_id="g", turns=[Turn(**turn)])],
        reasoning_tags=ReasoningTags(**tags),
    )
    (only,) = partition_batch(batch, tokenizer).turns
    return only


def test_text_without_a_tokenizer_stays_text() -> None:
    turn = cut({"prompt": PROMPT, "response": RESPONSE})

    assert turn.prompt_text == PROMPT
    assert turn.reasoning_text.strip() == "i am here ."
    assert turn.action_text == "<answer> up </answer> <eos>"
    assert (turn.prompt_token_ids, turn.reasoning_token_ids) == (None, None)
    assert (turn.invalid_reason, turn.retokenised) == (None, False)


def test_text_is_tokenised_when_there_are_no_ids() -> None:
    turn = cut({"prompt": PROMPT, "response": RESPONSE}, WORD)

    assert turn.prompt_token_ids == tuple(ids(PROMPT))
    assert turn.reasoning_token_ids == tuple(ids("i am here ."))
    assert turn.retokenised


SENT = {"prompt_token_ids": ids(PROMPT), "response_token_ids": ids(RESPONSE)}


@pytest.mark.parametrize(
    ("extra", "tokenizer", "tags"),
    [
        ({"reasoning_span": (0, 4)}, None, {}),
        ({"reasoning_span": (0, 4)}, WORD, {}),
        ({}, None, TAG_IDS),
        ({}, None, {"close_token_ids": [IDS["</think>"]]}),
        ({}, WORD, TAG_IDS),
        ({}, WORD, {}),
        ({"reasoning": "i am here ."}, WORD, {}),
        ({"prompt": PROMPT, "response": RESPONSE}, WORD, {}),
        ({}, WORD, {"pattern": r"(?P<reasoning>.*?)\s*</think>"}),
    ],
)
def test_sent_ids_win_whatever_they_are_cut_by(
    extra: dict[str, Any], tokenizer: Tokenizer | None, tags: dict[str, Any]
) -> None:
    turn = cut({**SENT, **extra}, tokenizer, **tags)

    assert turn.invalid_reason is None
    assert turn.prompt_token_ids == tuple(ids(PROMPT))
    assert turn.reasoning_token_ids == tuple(ids("i am here ."))
    assert not turn.retokenised
    if tokenizer is not None:
        assert turn.prompt_text == PROMPT
        assert turn.reasoning_text.strip() == "i am here ."
        assert turn.action_text == "<answer> up </answer> <eos>"


@pytest.mark.parametrize("tags", [TAG_IDS, {}])
@pytest.mark.parametrize("lead", ["<think>", "<think> "])
def test_an_opening_tag_in_the_response_belongs_to_the_prompt(lead: str, tags: dict[str, Any]) -> None:
    prompt, response = "<bos> sky me goal", f"{lead} {RESPONSE}"

    by_ids = cut({"prompt_token_ids": ids(prompt), "response_token_ids": ids(response)}, WORD, **tags)
    by_text = cut({"prompt": prompt + " ", "response": "\n" + response}, WORD, **tags)

    assert by_ids.prompt_token_ids == by_text.prompt_token_ids == tuple(ids(PROMPT))
    assert by_ids.reasoning_token_ids == by_text.reasoning_token_ids == tuple(ids("i am here ."))
    assert (by_ids.retokenised, by_text.retokenised) == (False, True)
    assert by_text.prompt_text == f"{prompt} \n<think>"


def test_an_opening_tag_in_the_response_is_cut_without_a_tokenizer_by_its_ids() -> None:
    sent = {"prompt_token_ids": ids("sky"), "response_token_ids": ids(f"<think> {RESPONSE}")}

    turn = cut(sent, None, **TAG_IDS)

    assert turn.prompt_token_ids == tuple(ids("sky <think>"))
    assert turn.reasoning_token_ids == tuple(ids("i am here ."))


def test_text_before_the_opening_tag_is_not_scored() -> None:
    texts = cut({"prompt": "sky", "response": "me <think> i </think> up"})
    tokens = cut(
        {"prompt_token_ids": ids("sky"), "response_token_ids": ids("me <think> i </think>")}, **TAG_IDS
    )

    assert texts.invalid_reason == tokens.invalid_reason == TEXT_BEFORE


def test_a_second_opening_tag_is_reasoning_when_the_prompt_has_the_first() -> None:
    turn = cut({"prompt": PROMPT, "response": "i am <think> here </think> up"})

    assert turn.reasoning_text == "i am <think> here "


@pytest.mark.parametrize("tokenizer", [None, WORD])
@pytest.mark.parametrize(
    ("response", "reason"), [("i am here", UNCLOSED), ("</think> up", EMPTY), ("<think> </think> up", EMPTY)]
)
def test_unclosed_and_empty_reasonings_are_not_scored(
    response: str, reason: str, tokenizer: Tokenizer | None
) -> None:
    by_text = cut({"prompt": "sky", "response": response}, tokenizer)
    by_ids = cut({"prompt_token_ids": ids("sky"), "response_token_ids": ids(response)}, tokenizer, **TAG_IDS)

    assert by_text.invalid_reason == by_ids.invalid_reason == reason
    assert by_text.reasoning_token_ids is by_ids.reasoning_token_ids is None


def test_a_span_that_ends_the_response_is_unclosed() -> None:
    sent = {"prompt_token_ids": ids("sky"), "response_token_ids": ids("i am"), "reasoning_span": (0, 2)}

    assert cut(sent).invalid_reason == UNCLOSED
    assert cut(sent, whole_response=True).reasoning_token_ids == tuple(ids("i am"))


def test_an_empty_span_is_an_empty_reasoning() -> None:
    sent = {**SENT, "reasoning_span": (0, 0)}

    assert cut(sent).invalid_reason == EMPTY


def test_ids_that_nothing_can_cut_are_not_scored_and_say_why() -> None:
    assert cut(SENT).invalid_reason == NOT_CUT


def test_an_empty_prompt_is_not_scored() -> None:
    assert cut({"prompt": "", "response": RESPONSE}).invalid_reason == EMPTY_PROMPT


def test_the_whole_response_can_be_the_reasoning() -> None:
    by_text = cut({"prompt": "sky", "response": "i am here"}, whole_response=True)
    by_ids = cut({"prompt_token_ids": [7], "response_token_ids": ids("i am")}, None, whole_response=True)

    assert (by_text.reasoning_text, by_text.action_text, by_text.invalid_reason) == ("i am here", None, None)
    assert by_ids.reasoning_token_ids == tuple(ids("i am"))


def test_a_pattern_cuts_reasoning_and_action() -> None:
    turn = cut(
        {"prompt": "sky", "response": "Plan: go\nup\nMove: left !"},
        pattern=r"Plan: (?P<reasoning>.*?)\nMove: (?P<action>\w+)",
    )

    assert (turn.prompt_text, turn.reasoning_text, turn.action_text) == ("skyPlan: ", "go\nup", "left")


def test_a_pattern_that_does_not_match_is_not_scored() -> None:
    assert cut({"prompt": "s", "response": "x"}, pattern="(?P<reasoning>y)").invalid_reason == NO_MATCH


@pytest.mark.parametrize(("pattern", "message"), [("(", "not a regular expression"), ("x", "no group named")])
def test_a_bad_pattern_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cut({"prompt": "s", "response": "x"}, pattern=pattern)


def test_the_trainers_own_reasoning_and_action_count() -> None:
    alone = cut({"prompt": PROMPT, "reasoning": "i am", "action": "up"}, WORD)
    within = cut({"prompt": PROMPT, "response": RESPONSE, "reasoning": "i am here .", "action": "up"})

    assert alone.reasoning_token_ids == tuple(ids("i am"))
    assert (alone.action_text, within.action_text) == ("up", "up")
    assert within.reasoning_text == "i am here ."


def test_the_trainers_own_reasoning_is_unclosed_when_the_response_ends_with_it() -> None:
    turn = cut({"prompt": PROMPT, "response": "i am here", "reasoning": "i am here"})

    assert turn.invalid_reason == UNCLOSED


def test_a_token_with_part_of_the_closing_tag_ends_the_reasoning() -> None:
    response = "go away</think>\nup"

    turn = cut(
        {"prompt_token_ids": PIECE.encode("s<think>"), "response_token_ids": PIECE.encode(response)}, PIECE
    )

    assert PIECE.encode(response)[4] == PIECE.pieces.index(b"ay</")
    assert turn.reasoning_token_ids is not None
    assert PIECE.decode(turn.reasoning_token_ids) == "go aw"
    assert turn.reasoning_text == "go away"


def test_a_token_with_the_end_of_the_opening_tag_belongs_to_the_prompt() -> None:
    response = "<think>\ngo</think>up"

    turn = cut({"prompt_token_ids": PIECE.encode("s"), "response_token_ids": PIECE.encode(response)}, PIECE)

    assert turn.prompt_token_ids is not None
    assert turn.reasoning_token_ids is not None
    assert PIECE.decode(turn.prompt_token_ids) == "s<think>\n"
    assert PIECE.decode(turn.reasoning_token_ids) == "go"


def test_tag_ids_that_were_merged_away_are_found_by_their_characters() -> None:
    close = PIECE.encode("</think>")
    sent = {"prompt_token_ids": PIECE.encode("s<think>"), "response_token_ids": PIECE.encode("go</think>\nx")}
    assert close != PIECE.encode("go</think>\nx")[1:4]

    turn = cut(sent, PIECE, open_token_ids=PIECE.encode("<think>"), close_token_ids=close)

    assert turn.reasoning_token_ids == tuple(PIECE.encode("go"))


@pytest.mark.parametrize("reasoning", ["go → left", "é", "日本", "🙂 go 🙂", "\ufffd"])
def test_characters_of_several_tokens_are_cut_whole(reasoning: str) -> None:
    sent = {
        "prompt_token_ids": PIECE.encode("s<think>"),
        "response_token_ids": PIECE.encode(f"{reasoning}</think>🙂"),
    }

    turn = cut(sent, PIECE)

    assert turn.reasoning_text == reasoning
    assert turn.reasoning_token_ids == tuple(PIECE.encode(reasoning))
    assert turn.action_text == "🙂"


def test_every_turn_of_every_rollout_comes_back_in_order() -> None:
    good, bad = Turn(prompt=PROMPT, response=RESPONSE), Turn(prompt=PROMPT, response="i am")
    rollouts = [Rollout(group_id="a", turns=[good, bad, good]), Rollout(group_id="b", turns=[bad])]

    partitioned = partition_batch(RolloutBatch(batch_id="b", step=0, rollouts=rollouts), None)

    places = [(turn.rollout_index, turn.turn_index, turn.group_id) for turn in partitioned.turns]
    assert places == [(0, 0, "a"), (0, 1, "a"), (0, 2, "a"), (1, 0, "b")]
    assert (partitioned.num_turns, len(partitioned.valid_turns)) == (4, 2)
    assert partitioned.invalid_reasons == {UNCLOSED: 2}


def test_prompt_ids_with_text_responses_are_partly_retokenised() -> None:
    turn = cut({"prompt_token_ids": ids("sky"), "response": f"<think> {RESPONSE}"}, WORD)

    assert turn.prompt_token_ids == tuple(ids("sky <think>"))
    assert turn.reasoning_token_ids == tuple(ids("i am here ."))
    assert turn.retokenised


class DroppingTokenizer(WordTokenizer):
    """Leaves special tokens out when it decodes."""

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(WORDS[token] for token in ids if not WORDS[token].startswith("<"))


def test_tags_that_the_tokenizer_drops_are_taken_from_the_text() -> None:
    turn = cut({**SENT, "prompt": PROMPT, "response": RESPONSE}, DroppingTokenizer())

    assert turn.invalid_reason is None
    assert turn.reasoning_token_ids == tuple(ids("i am here ."))
    assert turn.retokenised


def test_a_pattern_that_backtracks_without_end_is_refused_in_time() -> None:
    with pytest.raises(ValueError, match=r"took more than 1\.0 s on a response of 61 characters"):
        cut({"prompt": "s", "response": "a" * 60 + "!"}, pattern=r"(?P<reasoning>(a|aa)+)b(?<=x)c$")
