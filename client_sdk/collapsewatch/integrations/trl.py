"""TRL: a mixin by which `GRPOTrainer` and `RLOOTrainer` hand over their rollouts, and may score them.

    class Trainer(CollapseWatchMixin, GRPOTrainer): ...
    Trainer(..., callbacks=[CollapseWatchCallback(project="sokoban", cross_score=True)])

Source: TRL 1.16.0, `trl/trainer/grpo_trainer.py` and `rloo_trainer.py`. The three methods that are extended
are private; `tests/sdk/test_trl.py` trains with the real ones.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from collapsewatch.arguments import Scorer
from collapsewatch.boundary import Boundary, is_strict
from collapsewatch.contracts.rollouts import ReasoningTags
from collapsewatch.integrations.transformers import CollapseWatchCallback as _TrainerCallback
from collapsewatch.scoring import cross_score, gathered, save_adapter

__all__ = ["CollapseWatchCallback", "CollapseWatchMixin"]


class CollapseWatchCallback(_TrainerCallback):
    """The callback, with what the mixin is to do with the rollouts."""

    def __init__(
        self,
        project: str | None = None,
        *,
        cross_score: bool = False,
        every_steps: int = 1,
        num_samples: int | None = None,
        token_budget: int | None = None,
        adapters: str | Path | None = None,
        reasoning_tags: ReasoningTags | tuple[str, str] | None = None,
        reward_range: tuple[float, float] | None = None,
        scorer: Scorer | None = None,
        **options: Any,
    ) -> None:
        """A callback for one training.

        Args:
            cross_score: score the rollouts by the policy in the trainer's own memory, spread over its ranks.
            every_steps: the steps that it divides are scored so; steps count from 1.
            num_samples: most reasonings that are scored so.
            token_budget: most tokens of a micro-batch of it.
            adapters: folder in which the LoRA adapter of each step is kept for the worker, as `step-00012`.
                The scorer is then `policy` with the checkpoints of that folder, unless another one is named.
            reasoning_tags: a pair of tags; `<think>` and `</think>` when absent.
            reward_range: lowest and highest possible reward.
            options: those of `integrations.transformers.CollapseWatchCallback`.
        """
        if adapters is not None and scorer is None:
            scorer = {"kind": "policy", "checkpoint": str(Path(adapters) / "{policy_version}")}
        super().__init__(project, scorer=scorer, **options)
        self.adapters = None if adapters is None else Path(adapters)
        options_of_scoring: dict[str, Any] = {"num_samples": num_samples, "token_budget": token_budget}
        self.scoring = options_of_scoring if cross_score else None
        self.every_steps = every_steps
        self.head = {
            name: value
            for name, value in {"reasoning_tags": reasoning_tags, "reward_range": reward_range}.items()
            if value is not None
        }
        self.boundary = Boundary(strict=is_strict())


class CollapseWatchMixin:
    """Stands before `GRPOTrainer` or `RLOOTrainer` among the bases of a trainer of one's own.

    Each generated batch is handed over with token ids, groups and rewards, under the number of the update
    that it is for: 1 for the first. Evaluations are left out. The answers of tools part a rollout into turns.
    Nothing happens without a `CollapseWatchCallback` among the callbacks.
    """

    _watched: dict[str, Any]

    def _generate(self, prompts: list[Any]) -> Any:
        found = super()._generate(prompts)  # type: ignore[misc]
        # GRPO: ids, ids, tool mask, completions, log-probs, …; RLOO: ids, ids, completions.
        is_grpo = len(found) > 4
        self._watched = {
            "prompt_ids": found[0],
            "response_ids": found[1],
            "sampled": found[2] if is_grpo else None,
            "log_probs": found[4] if is_grpo else None,
        }
        return found

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
        rewards_per_function = super()._calculate_rewards(*args, **kwargs)  # type: ignore[misc]
        self._watched["rewards"] = rewards_per_function
        return rewards_per_function

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> Any:
        output = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        callback = next(
            (each for each in _callbacks(self) if isinstance(each, CollapseWatchCallback)),
            None,
        )
        trainer: Any = self
        if callback is not None and trainer.model.training:
            _hand_over(trainer, callback, self._watched)
        self._watched = {}
        return output


def _callbacks(trainer: Any) -> Iterable[Any]:
    return tuple(trainer.callback_handler.callbacks)


def _hand_over(trainer: Any, callback: CollapseWatchCallback, seen: Mapping[str, Any]) -> None:
    """Sends one generated batch, on rank 0; all ranks take part in gathering and scoring it."""
    step = trainer.state.global_step + 1
    version = f"step-{step:05d}"
    part: dict[str, Any] = {"rollouts": []}
    with callback.boundary.guard("rollouts of TRL"):
        part = {"rollouts": _rollouts(trainer, seen)}
    whole = gathered(part)["rollouts"]
    if not whole:
        return
    batch: dict[str, Any] = {
        "rollouts": _named(whole),
        "temperature": float(trainer.temperature),
        **callback.head,
    }
    is_first = trainer.accelerator.process_index == 0
    if callback.adapters is not None:
        with callback.boundary.guard("adapter"):
            save_adapter(trainer.model_wrapped, callback.adapters / version, is_writer=is_first)
    matrix = None
    if callback.scoring is not None and step % callback.every_steps == 0:
        matrix = cross_score(
            trainer.model_wrapped,
            batch,
            tokenizer=trainer.processing_class,
            step=step,
            spread=True,
            **callback.scoring,
        )
    if callback.run is not None:
        callback.run.log_rollouts(step, **batch, policy_version=version, cross_log_probs=matrix)


def _rollouts(trainer: Any, seen: Mapping[str, Any]) -> list[dict[str, Any]]:
    """This rank's rollouts."""
    prompts, responses = seen["prompt_ids"], seen["response_ids"]
    sampled = seen["sampled"] or [None] * len(prompts)
    log_probs = seen["log_probs"] or [None] * len(prompts)
    rewards = _rewards(trainer, seen["rewards"], len(prompts))
    tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
    first = trainer.accelerator.process_index * len(prompts)
    return [
        {
            "group_id": _group_id(trainer, prompt, first + row),
            "reward": reward,
            "turns": list(_turns(tokenizer, prompt, response, mask, values)),
        }
        for row, (prompt, response, mask, values, reward) in enumerate(
            zip(prompts, responses, sampled, log_probs, rewards, strict=True)
        )
    ]


def _group_id(trainer: Any, prompt: Sequence[int], row: int) -> str:
    """The prompt's digest and the number of the group in the step."""
    digest = blake2b(",".join(map(str, prompt)).encode(), digest_size=8).hexdigest()
    return f"prompt-{digest}/{row // trainer.num_generations}"


def _named(rollouts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rollouts with groups named alike whenever their prompt comes again; `…-2` for its second group."""
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    for rollout in rollouts:
        group = rollout["group_id"]
        if group not in names:
            digest = group.partition("/")[0]
            counts[digest] = counts.get(digest, 0) + 1
            names[group] = digest if counts[digest] == 1 else f"{digest}-{counts[digest]}"
    return [{**rollout, "group_id": names[rollout["group_id"]]} for rollout in rollouts]


def _rewards(trainer: Any, per_function: Any, count: int) -> list[float | None]:
    """The weighted sum for each of this rank's rollouts; None where no function gave a number."""
    weights = trainer.reward_weights.to(per_function.device)
    first = trainer.accelerator.process_index * count
    rows: list[list[float]] = (per_function * weights)[first : first + count].tolist()
    known = [[value for value in row if not math.isnan(value)] for row in rows]
    return [math.fsum(values) if values else None for values in known]


def _turns(
    tokenizer: Any,
    prompt: Sequence[int],
    response: Sequence[int],
    sampled: Sequence[int] | None,
    log_probs: Sequence[float | None] | None,
) -> Iterable[dict[str, Any]]:
    """A turn for each stretch of sampled tokens; what stands before it is its prompt."""
    for start, end in _stretches(sampled, len(response)):
        before, ids = [*prompt, *response[:start]], list(response[start:end])
        # The token that ends an answer is sampled, and no part of its text.
        shown = ids[:-1] if ids and ids[-1] == tokenizer.eos_token_id else ids
        turn: dict[str, Any] = {
            "prompt": _text(tokenizer, before),
            "prompt_token_ids": before,
            "response": _text(tokenizer, shown),
            "response_token_ids": ids,
        }
        values = [] if log_probs is None else log_probs[start:end]
        if len(values) == len(ids) and all(value is not None and math.isfinite(value) for value in values):
            turn["response_log_probs"] = list(values)
        yield turn


def _stretches(sampled: Sequence[int] | None, length: int) -> list[tuple[int, int]]:
    if sampled is None or all(sampled):
        return [(0, length)]
    edges = [at for at in range(1, length) if bool(sampled[at]) != bool(sampled[at - 1])]
    bounds = [0, *edges, length]
    return [(start, end) for start, end in itertools.pairwise(bounds) if sampled[start]]


def _text(tokenizer: Any, ids: Sequence[int]) -> str:
    text: str = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return text
