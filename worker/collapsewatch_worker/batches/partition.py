"""Cuts each turn into prompt X, reasoning Z and action A. Pure: knows no model.

Source: docs/metrics.md section 1. X ends with the opening tag, whichever side wrote it; Z lies between the
tags; A follows. Token ids win when they are sent: re-tokenised text can differ from what was sampled.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import regex

from collapsewatch.contracts.rollouts import ReasoningTags, RolloutBatch, Turn
from collapsewatch_worker.batches.token_offsets import covered_tokens, find_tokens, token_ends

UNCLOSED = "unclosed reasoning"
EMPTY = "empty reasoning"
EMPTY_PROMPT = "empty prompt"
TEXT_BEFORE = "text before the opening tag"
NO_MATCH = "the pattern does not match"
PATTERN_SECONDS = 1.0
"""What a pattern may take for one response."""
NOT_CUT = "token ids without a tokenizer, tag ids or a reasoning span"

Ids = tuple[int, ...]


class Tokenizer(Protocol):
    """What a partition needs of a tokenizer. `decode` keeps special tokens, or tags that are such vanish."""

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Token ids of a text."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids."""


@dataclass(frozen=True)
class PartitionedTurn:
    """One turn, cut."""

    rollout_index: int
    turn_index: int
    group_id: str
    prompt_token_ids: tuple[int, ...] | None
    """X; none without token ids and tokenizer, and when the turn is invalid."""
    prompt_text: str
    """X as text; empty when the batch has token ids only and no tokenizer is at hand."""
    reasoning_token_ids: tuple[int, ...] | None
    """Z, at least one token; none as for X."""
    reasoning_text: str
    """Z as text; of an unclosed reasoning, all there is."""
    action_text: str | None
    """A: as the trainer parsed it, else all after the closing tag; none when unknown."""
    invalid_reason: str | None
    """Why the turn cannot be scored; none when it can."""
    retokenised: bool
    """X or Z was tokenised from text, so the tokens may differ from those sampled."""


@dataclass(frozen=True)
class PartitionedBatch:
    """Every turn of a batch, in order of rollout and turn; the invalid ones are there to be counted."""

    turns: tuple[PartitionedTurn, ...]

    @property
    def num_turns(self) -> int:
        """All turns."""
        return len(self.turns)

    @property
    def valid_turns(self) -> tuple[PartitionedTurn, ...]:
        """Turns with a closed reasoning that is not empty."""
        return tuple(turn for turn in self.turns if turn.invalid_reason is None)

    @property
    def invalid_reasons(self) -> dict[str, int]:
        """Invalid turns by reason."""
        return dict(Counter(turn.invalid_reason for turn in self.turns if turn.invalid_reason is not None))

    @property
    def retokenised(self) -> bool:
        """Whether any valid turn was tokenised from text."""
        return any(turn.retokenised for turn in self.valid_turns)


def wants_tokenizer(batch: RolloutBatch) -> bool:
    """Whether some turn came without token ids, or with ids that nothing but a tokenizer tells how to cut."""
    ids_are_cut = bool(batch.reasoning_tags.close_token_ids)
    return any(
        turn.prompt_token_ids is None
        or turn.response_token_ids is None
        or (turn.reasoning_span is None and not ids_are_cut)
        for rollout in batch.rollouts
        for turn in rollout.turns
    )


def partition_batch(batch: RolloutBatch, tokenizer: Tokenizer | None) -> PartitionedBatch:
    """Every turn of the batch, cut into X, Z and A.

    The sampled token ids are cut by `reasoning_span`, else by the tags' token ids, else by the tags'
    characters in the decoded text. A token that holds the first character of the closing tag ends Z even
    if it also holds reasoning; a token that holds the end of the opening tag belongs to X as a whole.
    Whitespace before the opening tag is let pass; other text there makes the turn invalid, for the row
    would have a prompt of its own. A response without opening tag is taken to continue a prompt that has
    it. A trainer's own `reasoning` or span stands in the place of the tags; a response that ends with it
    is unclosed, unless the tags say that the whole response is reasoning.

    Args:
        batch: rollouts with text, token ids or both.
        tokenizer: that of the scoring model; without it text stays text, for lexical scores only.

    Raises:
        ValueError: the tag pattern is not a regular expression or has no group `reasoning`.
    """
    cutter = _Cutter(batch.reasoning_tags, tokenizer)
    turns = [
        cutter.partition(turn, rollout_index, turn_index, rollout.group_id)
        for rollout_index, rollout in enumerate(batch.rollouts)
        for turn_index, turn in enumerate(rollout.turns)
    ]
    return PartitionedBatch(tuple(turns))


@dataclass(frozen=True)
class _Cut:
    """A response, cut: what of it belongs to X, Z, A. Token ids where they could be cut as sampled."""

    lead_text: str = ""
    reasoning_text: str = ""
    action: str | None = None
    invalid_reason: str | None = None
    lead_ids: Ids | None = None
    reasoning_ids: Ids | None = None


class _Cutter:
    """Cuts turns by one set of tags."""

    def __init__(self, tags: ReasoningTags, tokenizer: Tokenizer | None) -> None:
        self._tags = tags
        self._pattern = _compiled(tags.pattern) if tags.pattern is not None else None
        self._encode: Callable[[str], Ids] | None = None
        self._tokenizer = tokenizer
        if tokenizer is not None:
            # Every rollout of a group brings the same prompt, every response the same tokens.
            self._decode_one = lru_cache(2**17)(lambda token: tokenizer.decode([token]))
            self._encode = lru_cache(4096)(
                lambda text: tuple(tokenizer.encode(text, add_special_tokens=False))
            )

    def partition(self, turn: Turn, rollout_index: int, turn_index: int, group_id: str) -> PartitionedTurn:
        """One turn, cut."""
        prompt_text = turn.prompt
        if prompt_text is None:
            prompt_text = self._decoded(turn.prompt_token_ids or ())
        cut = self._cut(turn, self._is_open(turn, prompt_text))
        if not prompt_text and not turn.prompt_token_ids:
            cut = replace(cut, invalid_reason=cut.invalid_reason or EMPTY_PROMPT)
        prompt_ids, reasoning_ids, retokenised = self._token_ids(turn, prompt_text, cut)
        return PartitionedTurn(
            rollout_index=rollout_index,
            turn_index=turn_index,
            group_id=group_id,
            prompt_token_ids=prompt_ids,
            prompt_text=prompt_text + cut.lead_text if prompt_text else "",
            reasoning_token_ids=reasoning_ids,
            reasoning_text=cut.reasoning_text,
            action_text=turn.action if turn.action is not None else cut.action,
            invalid_reason=cut.invalid_reason,
            retokenised=retokenised,
        )

    def _cut(self, turn: Turn, is_open: bool) -> _Cut:
        """The best cut that the turn's data allow; sampled ids before text."""
        cut = self._cut_ids(turn, is_open)
        if cut is not None and cut.invalid_reason is None:
            return cut
        if turn.response is not None:
            from_text = self._cut_text(turn.response, turn.reasoning, is_open)
            # A tokenizer that drops special tokens hides the tags; the text may still show them.
            if from_text is not None and (cut is None or from_text.invalid_reason is None):
                return from_text
        if cut is not None:
            return cut
        if turn.reasoning is not None:
            reason = None if turn.reasoning.strip() else EMPTY
            return _Cut(reasoning_text=turn.reasoning, invalid_reason=reason)
        return _Cut(invalid_reason=NOT_CUT)

    def _cut_ids(self, turn: Turn, is_open: bool) -> _Cut | None:
        """A cut of the sampled response ids; none when there are none, or nothing to cut them by."""
        if turn.response_token_ids is None:
            return None
        ids = tuple(turn.response_token_ids)
        if turn.reasoning_span is not None:
            start, end = turn.reasoning_span
            if end == len(ids) and not self._tags.whole_response:
                return self._invalid_ids(turn, ids, start, UNCLOSED)
            return self._named(turn, ids, start, end, end)
        by_tags = self._pattern is None and turn.reasoning is None
        if by_tags and self._tags.whole_response:
            return self._named(turn, ids, 0, len(ids), len(ids))
        cut = None
        if by_tags and self._tags.close_token_ids and (self._tags.open_token_ids or self._tokenizer is None):
            cut = self._cut_by_tag_ids(turn, ids, is_open)
        # A tag next to other characters can have other ids than on its own; its characters stay the same.
        if (cut is None or cut.invalid_reason is not None) and self._tokenizer is not None:
            return self._cut_by_characters(turn, ids, is_open)
        return cut

    def _cut_by_tag_ids(self, turn: Turn, ids: Ids, is_open: bool) -> _Cut:
        opening, closing = self._tags.open_token_ids or [], self._tags.close_token_ids or []
        start = 0
        close_at = find_tokens(ids, closing)
        open_at = find_tokens(ids, opening) if opening else -1
        if open_at >= 0 and (close_at < 0 or open_at < close_at):
            if self._is_blank(turn, ids[:open_at]):
                start = open_at + len(opening)
            elif not is_open:
                return self._invalid_ids(turn, ids, 0, TEXT_BEFORE)
        end = find_tokens(ids, closing, start)
        if end < 0:
            return self._invalid_ids(turn, ids, start, UNCLOSED)
        return self._named(turn, ids, start, end, end + len(closing))

    def _cut_by_characters(self, turn: Turn, ids: Ids, is_open: bool) -> _Cut | None:
        text, ends = token_ends(ids, self._decoded)
        cut = self._cut_text(text, turn.reasoning, is_open)
        if cut is None or cut.invalid_reason is not None:
            return cut
        first, last = covered_tokens(ends, len(cut.lead_text), len(cut.lead_text) + len(cut.reasoning_text))
        reason = EMPTY if first == last else None
        return replace(cut, lead_ids=ids[:first], reasoning_ids=ids[first:last], invalid_reason=reason)

    def _named(self, turn: Turn, ids: Ids, start: int, end: int, action_start: int) -> _Cut:
        """The cut [start, end) of the ids, with the texts that belong to it."""
        action: str | None
        if self._tokenizer is not None:
            lead, text = self._decoded(ids[:start]), self._decoded(ids[start:end])
            action = self._decoded(ids[action_start:]).strip().removeprefix(self._tags.close).strip()
        else:
            cut = None
            if turn.response is not None:
                cut = self._cut_text(turn.response, turn.reasoning, False)
            cut = cut or _Cut(reasoning_text=turn.reasoning or "")
            lead, text, action = cut.lead_text, cut.reasoning_text, cut.action
        if self._tags.whole_response:
            action = None
        blank = start == end or (text != "" and not text.strip())
        return _Cut(lead, text, action, EMPTY if blank else None, ids[:start], ids[start:end])

    def _invalid_ids(self, turn: Turn, ids: Ids, start: int, reason: str) -> _Cut:
        text = self._decoded(ids[start:]) or turn.response or ""
        return _Cut(reasoning_text=text, invalid_reason=reason)

    def _cut_text(self, response: str, reasoning: str | None, is_open: bool) -> _Cut | None:
        """A cut of the text; none when the trainer's own reasoning is not in it."""
        if reasoning is not None:
            return self._cut_around(response, reasoning)
        if self._pattern is not None:
            return _cut_by_pattern(response, self._pattern)
        if self._tags.whole_response:
            return _Cut(reasoning_text=response, invalid_reason=None if response.strip() else EMPTY)
        start = self._opening_end(response)
        close_at, open_at = response.find(self._tags.close), response.find(self._tags.open)
        if not start and not is_open and open_at >= 0 and (close_at < 0 or open_at < close_at):
            return _Cut(reasoning_text=response, invalid_reason=TEXT_BEFORE)
        end = response.find(self._tags.close, start)
        if end < 0:
            return _Cut(response[:start], response[start:], None, UNCLOSED)
        text = response[start:end]
        action = response[end + len(self._tags.close) :].strip()
        return _Cut(response[:start], text, action, None if text.strip() else EMPTY)

    def _cut_around(self, response: str, reasoning: str) -> _Cut | None:
        """A cut at the trainer's own reasoning."""
        if not reasoning.strip():
            return _Cut(reasoning_text=reasoning, invalid_reason=EMPTY)
        start = response.find(reasoning, self._opening_end(response))
        if start < 0:
            return None
        rest = response[start + len(reasoning) :].strip()
        if not rest and not self._tags.whole_response:
            return _Cut(response[:start], reasoning, None, UNCLOSED)
        action = rest.removeprefix(self._tags.close).strip() if rest else None
        return _Cut(response[:start], reasoning, action)

    def _opening_end(self, response: str) -> int:
        """Where the opening tag at the start of a response ends, 0 when there is none."""
        lead = len(response) - len(response.lstrip())
        return lead + len(self._tags.open) if response.startswith(self._tags.open, lead) else 0

    def _is_open(self, turn: Turn, prompt_text: str) -> bool:
        """Whether the prompt ends with the opening tag."""
        opening = self._tags.open_token_ids
        ids = turn.prompt_token_ids or []
        if opening and ids[-len(opening) :] == opening:
            return True
        return prompt_text.rstrip().endswith(self._tags.open)

    def _is_blank(self, turn: Turn, ids: Ids) -> bool:
        """Whether the tokens before an opening tag are nothing but whitespace."""
        if not ids or self._tokenizer is not None:
            return not self._decoded(ids).strip()
        return turn.response is not None and self._opening_end(turn.response) > 0

    def _decoded(self, ids: Sequence[int]) -> str:
        if self._tokenizer is None or not ids:
            return ""
        return self._decode_one(ids[0]) if len(ids) == 1 else self._tokenizer.decode(list(ids))

    def _token_ids(self, turn: Turn, prompt_text: str, cut: _Cut) -> tuple[Ids | None, Ids | None, bool]:
        """X, Z, and whether either was tokenised from text; both or none."""
        nothing = (None, None, False)
        if cut.invalid_reason is not None:
            return nothing
        encode = self._encode
        retokenised = cut.reasoning_ids is None
        reasoning_ids = cut.reasoning_ids
        if reasoning_ids is None:
            reasoning_ids = encode(cut.reasoning_text) if encode is not None else ()
        if turn.prompt_token_ids is None:
            prompt_ids = encode(prompt_text + cut.lead_text) if encode is not None else ()
            retokenised = True
        elif cut.lead_ids is not None or not cut.lead_text:
            prompt_ids = (*turn.prompt_token_ids, *(cut.lead_ids or ()))
        else:
            if encode is None:
                return nothing
            prompt_ids = (*turn.prompt_token_ids, *encode(cut.lead_text))
            retokenised = True
        if not prompt_ids or not reasoning_ids:
            return nothing
        return prompt_ids, reasoning_ids, retokenised


def _compiled(pattern: str) -> regex.Pattern[str]:
    try:
        compiled = regex.compile(pattern, regex.DOTALL)
    except regex.error as error:
        raise ValueError(f"the reasoning pattern {pattern!r} is not a regular expression: {error}") from error
    if "reasoning" not in compiled.groupindex:
        raise ValueError(f"the reasoning pattern {pattern!r} has no group named `reasoning`")
    return compiled


def _cut_by_pattern(response: str, pattern: regex.Pattern[str]) -> _Cut:
    """A cut at the groups `reasoning` and `action`; all before the reasoning belongs to X."""
    try:
        # The standard library's search has no time limit: one backtracking pattern would hold the worker.
        match = pattern.search(response, timeout=PATTERN_SECONDS)
    except TimeoutError as error:
        raise ValueError(
            f"the reasoning pattern {pattern.pattern!r} took more than {PATTERN_SECONDS} s on a response "
            f"of {len(response)} characters"
        ) from error
    if match is None or match["reasoning"] is None:
        return _Cut(reasoning_text=response, invalid_reason=NO_MATCH)
    start, end = match.span("reasoning")
    action = match["action"] if "action" in pattern.groupindex else response[match.end() :].strip()
    text = response[start:end]
    return _Cut(response[:start], text, action, None if text.strip() else EMPTY)
