"""What the API answers about a run's rollouts. All text is as the model saw or wrote it, never markup."""

from typing import Literal

from collapsewatch_server.reading.views import View


class RolloutRow(View):
    """One rollout in the list of its step."""

    index: int
    """Its place in the batch, from 0."""
    group_id: str
    rollout_id: str | None
    reward: float | None
    success: bool | None
    num_turns: int
    num_chars: int
    """Of all its responses; those that came as token ids alone count nothing."""
    excerpt: str
    """The start of the first response, its whitespace made single spaces."""


class RolloutList(View):
    """Rollouts of one step."""

    step: int
    attempt_id: str
    policy_version: str | None
    first_step: int
    previous_step: int | None
    """The step before this one that has rollouts."""
    next_step: int | None
    last_step: int
    num_rollouts: int
    """Of the step."""
    num_found: int
    """Of the group that was asked for; all of them when none was."""
    offset: int
    rollouts: list[RolloutRow]
    reason: str | None
    """Why there are none, or not all."""
    text_removed: bool
    """Whether that is because the project keeps text for some days only. Its numbers are all there."""


class TokenSeries(View):
    """log p of the tokens of a response, or of a part of it, under one model."""

    source: Literal["sampler", "scorer"]
    """`sampler`: what the trainer sent. `scorer`: the reasoning under its own prompt, as it was scored."""
    label: str
    """Who it was, such as `policy: checkpoints/{policy_version}`."""
    log_probs: list[float]
    """In nats, rounded to thousandths."""
    pieces: list[str] | None
    """The text of each token; empty for one that ends within a character. None where nobody told."""
    before: str
    """The response before the first piece."""
    after: str
    """The response after the last one."""
    token_ids: list[int] | None
    """Where the pieces are not known."""
    num_left_out: int
    """Tokens at the end that are not shown."""


class TurnView(View):
    """One model call."""

    prompt: str | None
    """What is new in it: without what the turn before has shown already. None where it came as token ids."""
    prompt_repeats: int
    """Characters at its start that repeat the prompt and the response of the turn before."""
    prompt_left_out: int
    """Characters in its middle that are not shown, at the place marked by `prompt_gap`."""
    prompt_gap: int | None
    """After how many characters of `prompt` some are left out."""
    response: str | None
    """All it wrote. None where it came as token ids."""
    response_left_out: int
    """Characters at its end that are not shown."""
    reasoning: str | None
    """As the trainer cut it out, where it did; of token ids alone as the scorer's tokenizer reads them."""
    action: str | None
    """As the trainer parsed it, where it did."""
    num_prompt_tokens: int | None
    num_response_tokens: int | None
    tokens: list[TokenSeries]


class RolloutDetail(View):
    """One rollout as it can be read."""

    step: int
    attempt_id: str
    index: int
    num_rollouts: int
    group_id: str
    rollout_id: str | None
    reward: float | None
    success: bool | None
    policy_version: str | None
    temperature: float | None
    open_tag: str | None
    """Which text begins the reasoning; none where it is cut out in another way."""
    close_tag: str | None
    turns: list[TurnView]
    num_turns: int
    """Those after the first 200 are not shown."""
    tokens_reason: str | None
    """Why the scorer's log-probs are not there."""


class RolloutHit(View):
    """One rollout that holds the text that was looked for."""

    step: int
    attempt_id: str
    index: int
    group_id: str
    reward: float | None
    success: bool | None
    turn: int
    """The first turn that has it, from 0."""
    place: Literal["prompt", "response"]
    before: str
    """A little of what stands before the first match there."""
    match: str
    after: str
    num_matches: int
    """In the rollout's texts that were looked through."""


class Cursor(View):
    """Where a search goes on."""

    step: int
    index: int


class RolloutHits(View):
    """Some of what a search found, newest step first."""

    hits: list[RolloutHit]
    next: Cursor | None
    """Hand it in as `from_step` and `from_index` to go on; none when all has been looked through."""
    num_steps: int
    """Steps that were looked through to their end by this call."""
    num_rollouts: int
    """Rollouts that were looked through by it."""
    unreadable_steps: list[int]
    """Steps of which something could not be read."""
    num_removed_steps: int
    """Steps whose text was removed, at least in part, because the project keeps it for some days only."""


class PhraseShare(View):
    """A phrase, and how common it is over the steps."""

    text: str
    num_words: int
    num_prompts: int | None
    """Prompts whose reasonings share it at the step that is shown; none for a phrase that was asked for."""
    shares: list[float | None]
    """For each of `steps` the share of its first responses that have the phrase; none where nothing could
    be read, or was not yet."""


class TemplateShares(View):
    """The shared template of one step, and how it spread over the run."""

    step: int
    attempt_id: str
    num_prompts: int | None
    """Distinct prompts whose reasonings were compared."""
    min_prompts: int | None
    """Prompts that had to share a phrase."""
    min_words: int | None
    """Words of the shortest phrase that was looked for."""
    phrases: list[PhraseShare]
    """Those that most first responses of the step have come first."""
    steps: list[int]
    """At most 40, evenly spread over the run, the shown one among them."""
    num_rollouts: list[int | None]
    """First responses that were read at each of them, at most 256."""
    is_complete: bool
    """False when reading took too long: ask again, and it goes on from there."""
    reason: str | None
    """Why there is no template."""
    text_removed: bool
    """Whether that is because the project keeps text for some days only."""
