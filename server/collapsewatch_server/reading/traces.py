"""Which responses of a batch are shown for an alert, and how much of each. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pydantic import BaseModel

from collapsewatch_server.reading.alert_views import DrivingPrompt
from collapsewatch_server.reading.trace_views import PromptTraces, Trace

NUM_PROMPTS = 4
NUM_PER_PROMPT = 2
PROMPT_CHARS = 600
RESPONSE_CHARS = 1500


# A batch as its blob holds it, without what is not shown: of long token ids nothing is built that way.
class StoredTurn(BaseModel):
    prompt: str | None = None
    response: str | None = None
    reasoning: str | None = None
    action: str | None = None

    @property
    def text(self) -> str | None:
        """What the model wrote; its parts where the trainer sent nothing but them."""
        if self.response is not None or self.reasoning is None:
            return self.response
        return self.reasoning if self.action is None else f"{self.reasoning}\n{self.action}"


class StoredRollout(BaseModel):
    group_id: str
    turns: list[StoredTurn]
    reward: float | None = None
    success: bool | None = None
    rollout_id: str | None = None


class StoredBatch(BaseModel):
    rollouts: list[StoredRollout]


class Moment(NamedTuple):
    """Where a batch belongs."""

    step: int
    attempt_id: str


class Sample(NamedTuple):
    """One response of a rollout."""

    rollout: StoredRollout
    turn: int

    @property
    def prompt(self) -> str | None:
        """All the model saw before it."""
        return self.rollout.turns[self.turn].prompt


def driven(prompts: Sequence[DrivingPrompt]) -> list[DrivingPrompt]:
    """The first of the prompts, each once: a trajectory can hold several of one group with one preview."""
    different: dict[tuple[tuple[str, ...], str], DrivingPrompt] = {}
    for one in prompts:
        different.setdefault((tuple(one.group_ids), one.preview), one)
    return list(different.values())[:NUM_PROMPTS]


def samples_of(
    rollouts: Iterable[StoredRollout], prompts: Sequence[DrivingPrompt], scope: str
) -> list[list[Sample]]:
    """For each prompt the first responses to it; reads no further than until all have enough."""
    found: list[list[Sample]] = [[] for _ in prompts]
    for rollout in rollouts:
        for own, prompt in zip(found, prompts, strict=True):
            if len(own) < NUM_PER_PROMPT and rollout.group_id in prompt.group_ids:
                sample = _sample(rollout, scope, prompt.preview)
                own.extend([] if sample is None else [sample])
        if all(len(own) == NUM_PER_PROMPT for own in found):
            break
    return found


class Counterpart(NamedTuple):
    """A response of the baseline beside those of a prompt."""

    sample: Sample
    is_same_prompt: bool


def counterparts(
    rollouts: Iterable[StoredRollout],
    prompts: Sequence[DrivingPrompt],
    samples: Sequence[Sequence[Sample]],
    scope: str,
) -> list[Counterpart | None]:
    """For each prompt one response of another batch: to the same prompt, else to one of the same group.

    Group ids may be new at every step, and may name another prompt at each, so the text decides where there
    is one. The first prompt gets the batch's first response if nothing was found for any of them.
    """
    same: list[Sample | None] = [None] * len(prompts)
    of_group: list[Sample | None] = [None] * len(prompts)
    first: Sample | None = None
    for rollout in rollouts:
        for at, (prompt, own) in enumerate(zip(prompts, samples, strict=True)):
            sample = _sample(rollout, scope, prompt.preview)
            first = first or sample
            if sample is None or not own:
                continue
            if _is_same_prompt(sample, own[0]):
                same[at] = same[at] or sample
            elif rollout.group_id in prompt.group_ids:
                of_group[at] = of_group[at] or sample
        if all(same):
            break
    if first is not None and samples and not any(same) and not any(of_group):
        of_group[0] = first
    return [
        Counterpart(one, True) if one else Counterpart(other, False) if other else None
        for one, other in zip(same, of_group, strict=True)
    ]


def prompt_traces(
    prompt: DrivingPrompt,
    samples: Sequence[Sample],
    moment: Moment,
    counterpart: Counterpart | None,
    baseline: Moment | None,
) -> PromptTraces:
    """The samples of one prompt, cut to what is shown."""
    then = None
    if counterpart is not None and baseline is not None:
        then = _trace(counterpart.sample, baseline)
    return PromptTraces(
        group_ids=prompt.group_ids,
        preview=prompt.preview,
        traces=[_trace(sample, moment) for sample in samples],
        baseline=then,
        is_same_prompt=then is not None and counterpart is not None and counterpart.is_same_prompt,
    )


def fault_words(step: int, num_parts: int, faults: Sequence[str]) -> str | None:
    """What is wrong with the batch of the step; none when nothing is.

    Args:
        faults: of each part that could not be read, such as `no longer stored`.
    """
    if not faults:
        return None
    if num_parts == 1:
        return f"the batch of step {step} is {faults[0]}"
    counted = [f"{count} of {num_parts} {fault}" for fault, count in Counter(faults).items()]
    return f"parts of the batch of step {step} are missing here: {'; '.join(counted)}"


def _sample(rollout: StoredRollout, scope: str, preview: str) -> Sample | None:
    """The rollout's response in the scope; none where it has no such turn, or no text of it."""
    turn = _turn(rollout, scope, preview)
    if turn >= len(rollout.turns) or rollout.turns[turn].text is None:
        return None
    return Sample(rollout, turn)


def _turn(rollout: StoredRollout, scope: str, preview: str) -> int:
    kind, _, number = scope.partition("/")
    if kind == "turn" and number.isdecimal():
        return int(number)
    if scope != "trajectory":
        return 0
    # A preview is a piece of the prompt's own text, which may end with a tag that the model wrote.
    piece = preview.removeprefix("…")
    texts = [turn.prompt or "" for turn in rollout.turns]
    whole = (at for at, text in enumerate(texts) if piece and piece in text)
    within = (at for at, text in enumerate(texts) if text and piece.startswith(text))
    return next(whole, next(within, 0))


def _is_same_prompt(one: Sample, other: Sample) -> bool:
    if one.prompt is None or other.prompt is None:
        return one.prompt is other.prompt and one.rollout.group_id == other.rollout.group_id
    return one.prompt == other.prompt


def _trace(sample: Sample, moment: Moment) -> Trace:
    rollout, prompt = sample.rollout, sample.prompt
    response = rollout.turns[sample.turn].text
    assert response is not None
    return Trace(
        group_id=rollout.group_id,
        step=moment.step,
        attempt_id=moment.attempt_id,
        turn=sample.turn,
        reward=rollout.reward,
        success=rollout.success,
        prompt=None if prompt is None else prompt[-PROMPT_CHARS:],
        prompt_left_out=max(0, len(prompt or "") - PROMPT_CHARS),
        response=response[:RESPONSE_CHARS],
        response_left_out=max(0, len(response) - RESPONSE_CHARS),
    )
