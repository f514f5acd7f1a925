"""What of a batch's rollouts is shown, and how much of it. Pure."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pydantic import BaseModel, Field

from collapsewatch.contracts.rollouts import ReasoningTags
from collapsewatch_server.reading.rollout_views import RolloutRow, TurnView
from collapsewatch_server.reading.traces import StoredRollout, StoredTurn

EXCERPT_CHARS = 160
MAX_TURNS = 200
MAX_PROMPT_CHARS = 40_000
MAX_RESPONSE_CHARS = 200_000
MAX_TOKENS = 20_000
_HEAD_CHARS = 8_000
"""Of a long prompt that is shown before the gap."""


class FullTurn(StoredTurn):
    prompt_token_ids: list[int] | None = None
    response_token_ids: list[int] | None = None
    response_log_probs: list[float] | None = None


class FullRollout(StoredRollout):
    turns: list[FullTurn]  # type: ignore[assignment]


class BatchAround(BaseModel):
    """A batch's head, and its rollouts, which are made one by one as they are asked for."""

    reasoning_tags: ReasoningTags = Field(default_factory=ReasoningTags)
    temperature: float | None = None
    policy_version: str | None = None
    rollouts: Iterable[FullRollout]


class FoundRollout(NamedTuple):
    """A rollout with what its batch says of all of them."""

    rollout: FullRollout
    tags: ReasoningTags
    temperature: float | None

    @property
    def has_tags(self) -> bool:
        """Whether its reasoning stands between two tags."""
        return self.tags.pattern is None and not self.tags.whole_response


def rollout_at(document: bytes, position: int) -> FoundRollout | None:
    """The rollout at the position in the batch of this JSON; none when there are fewer.

    Raises:
        ValueError: it is not a batch.
    """
    batch = BatchAround.model_validate_json(document)
    for number, rollout in enumerate(batch.rollouts):
        if number == position:
            return FoundRollout(rollout, batch.reasoning_tags, batch.temperature)
    return None


def row_of(index: int, rollout: StoredRollout) -> RolloutRow:
    """The rollout as it stands in the list."""
    texts = [turn.text for turn in rollout.turns]
    first = next((text for text in texts if text), "")
    return RolloutRow(
        index=index,
        group_id=rollout.group_id,
        rollout_id=rollout.rollout_id,
        reward=rollout.reward,
        success=rollout.success,
        num_turns=len(rollout.turns),
        num_chars=sum(len(text) for text in texts if text),
        # Four times as much, because whitespace may be most of it.
        excerpt=" ".join(first[: 4 * EXCERPT_CHARS].split())[:EXCERPT_CHARS],
    )


ORDERS = ("index", "reward", "-reward", "length", "-length")


def in_order(rows: list[RolloutRow], order: str) -> list[RolloutRow]:
    """The rows by one of `ORDERS`; those without a reward come last either way."""
    name = order.removeprefix("-")
    if name == "index":
        return rows
    sign = -1 if order.startswith("-") else 1
    if name == "length":
        return sorted(rows, key=lambda row: sign * row.num_chars)
    return sorted(rows, key=lambda row: (row.reward is None, sign * (row.reward or 0.0)))


def turn_views(rollout: FullRollout) -> Iterator[TurnView]:
    """The turns as they are shown, without token series; a prompt without what the turn before has shown."""
    seen = ""
    for turn in rollout.turns[:MAX_TURNS]:
        repeats = len(seen) if seen and turn.prompt is not None and turn.prompt.startswith(seen) else 0
        new = None if turn.prompt is None else turn.prompt[repeats:]
        prompt, gap, left_out = new, None, 0
        if new is not None and len(new) > MAX_PROMPT_CHARS:
            tail = MAX_PROMPT_CHARS - _HEAD_CHARS
            prompt, gap = new[:_HEAD_CHARS] + new[-tail:], _HEAD_CHARS
            left_out = len(new) - MAX_PROMPT_CHARS
        response = turn.response
        yield TurnView(
            prompt=prompt,
            prompt_repeats=repeats,
            prompt_left_out=left_out,
            prompt_gap=gap,
            response=None if response is None else response[:MAX_RESPONSE_CHARS],
            response_left_out=max(0, len(response or "") - MAX_RESPONSE_CHARS),
            reasoning=_cut(turn.reasoning),
            action=_cut(turn.action),
            num_prompt_tokens=None if turn.prompt_token_ids is None else len(turn.prompt_token_ids),
            num_response_tokens=_num_tokens(turn),
            tokens=[],
        )
        seen = "" if turn.prompt is None else turn.prompt + (response or "")


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:MAX_RESPONSE_CHARS]


def _num_tokens(turn: FullTurn) -> int | None:
    known = turn.response_token_ids if turn.response_token_ids is not None else turn.response_log_probs
    return None if known is None else len(known)
