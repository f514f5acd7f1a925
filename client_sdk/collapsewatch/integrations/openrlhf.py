"""OpenRLHF: a reward function, or an agent, that hands over what it sees.

    # reward.py, for --reward.remote_url reward.py
    reward_func = watched_reward(reward_func, collector)

    # agent.py, for --train.agent_func_path agent.py
    AgentExecutor = watched_agent(AgentExecutor, collector)

OpenRLHF runs these in its rollout processes, which know no step: a `RolloutCollector` counts them by the size
of a batch. With several engines each process sees a part of each step; a reward server sees all of it.

Source: OpenRLHF 0.11.2, `openrlhf/utils/agent.py`.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from hashlib import blake2b
from typing import Any

from collapsewatch.integrations.collector import RolloutCollector

__all__ = ["RolloutCollector", "watched_agent", "watched_reward"]

RewardFunction = Callable[..., Any]


def watched_reward(reward_func: RewardFunction, collector: RolloutCollector) -> RewardFunction:
    """The reward function, which also hands over what it was asked about.

    It is called with `queries` (prompt and response as one text), `prompts` and `labels`, and answers a
    mapping with `rewards`, or the rewards themselves.
    """

    @wraps(reward_func)
    def told(queries: Sequence[str], prompts: Sequence[str], *args: Any, **options: Any) -> Any:
        answer = reward_func(queries, prompts, *args, **options)
        with collector.boundary.guard("rollouts of OpenRLHF"):
            rewards = _plain(answer["rewards"] if isinstance(answer, dict) else answer)
            for query, prompt, reward in zip(queries, prompts, rewards, strict=True):
                turn = {"prompt": prompt, "response": query.removeprefix(prompt)}
                collector.add({"group_id": _group(prompt), "reward": float(reward), "turns": [turn]})
        return answer

    return told


def watched_agent(executor: type[Any], collector: RolloutCollector) -> type[Any]:
    """A subclass of an agent executor that hands over each episode: token ids, a turn for each action."""

    class WatchedAgent(executor):  # type: ignore[misc]
        async def execute(self, prompt: str, label: Any, *args: Any, **options: Any) -> Any:
            answer = await super().execute(prompt, label, *args, **options)
            tokenizer = options.get("hf_tokenizer", args[2] if len(args) > 2 else None)
            with collector.boundary.guard("rollouts of OpenRLHF"):
                for episode in answer if isinstance(answer, list) else [answer]:
                    collector.add(_episode(episode, tokenizer))
            return answer

    WatchedAgent.__name__ = WatchedAgent.__qualname__ = executor.__name__
    return WatchedAgent


def _episode(answer: dict[str, Any], tokenizer: Any) -> dict[str, Any]:
    rollout: dict[str, Any] = {
        "group_id": _group(answer["prompt"]),
        "turns": list(_turns(answer, tokenizer)),
    }
    reward = answer.get("reward")
    if reward is not None:
        rollout["reward"] = float(_plain(reward) if not isinstance(reward, int | float) else reward)
    return rollout


def _turns(answer: dict[str, Any], tokenizer: Any) -> Iterable[dict[str, Any]]:
    """What was read and written at each action."""
    tokens, log_probs = list(answer["observation_tokens"]), answer.get("rollout_log_probs")
    for start, end in answer["action_ranges"]:
        turn: dict[str, Any] = {
            "prompt_token_ids": tokens[:start],
            "response_token_ids": tokens[start:end],
        }
        if tokenizer is not None:
            turn["prompt"] = tokenizer.decode(tokens[:start], skip_special_tokens=False)
            turn["response"] = tokenizer.decode(tokens[start:end], skip_special_tokens=True)
        if log_probs is not None:
            turn["response_log_probs"] = [float(value) for value in log_probs[start:end]]
        yield turn


def _group(prompt: str) -> str:
    return "prompt-" + blake2b(prompt.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _plain(values: Any) -> Any:
    to_list = getattr(values, "tolist", None)
    return to_list() if callable(to_list) else values
