"""A run whose trainer sends the cross-scoring matrix: it has nats, a quadrant, and the same prompts."""

import numpy as np

import collapsewatch

NUM_PROMPTS = 12
NUM_ROLLOUTS = 4
MAGNET = 3
"""Number of the prompt that the reasonings of all others come to fit."""


def collapse_at(step: int, *, start: int = 16, length: int = 16) -> float:
    """How far the collapse has come, 0 to 1."""
    return float(np.clip((step - start) / length, 0.0, 1.0))


def log_policy_step(
    run: collapsewatch.Run, step: int, *, collapsed: float = 0.0, version: str | None = None
) -> None:
    """Logs one step: reasonings depend on their prompts unless they have collapsed to the magnet's."""
    rng = np.random.default_rng(step)
    own = np.repeat(np.arange(NUM_PROMPTS), NUM_ROLLOUTS)
    num_rows = own.size
    log_probs = rng.normal(-42.0, 0.7, (num_rows, NUM_PROMPTS))
    is_lost = rng.random(num_rows) < collapsed
    # What is lost fits no prompt well, the magnet's a little better than the others.
    log_probs[np.arange(num_rows), np.where(is_lost, MAGNET, own)] += np.where(is_lost, 3.0, 7.0)
    hits = rng.random(num_rows) < 0.5
    # Prompt 0 is always solved and prompt 1 never: no filter keeps what does not vary.
    hits[own == 0], hits[own == 1] = True, False
    rewards = hits.astype(float)
    run.log_rollouts(
        step,
        prompts=[f"Room {room}: a box is {room + 2} squares from the wall. <think>" for room in own],
        responses=[
            f"I push the box of room {MAGNET if lost else room} to the wall.</think> push {number}"
            for number, (room, lost) in enumerate(zip(own, is_lost, strict=True))
        ],
        rewards=rewards.tolist(),
        group_ids=[f"room-{room}" for room in own],
        reward_range=(0.0, 1.0),
        policy_version=version,
        cross_log_probs={
            "rollout_indices": list(range(num_rows)),
            "column_group_ids": [f"room-{room}" for room in range(NUM_PROMPTS)],
            "log_probs": log_probs.tolist(),
            "token_counts": [int(count) for count in rng.integers(18, 40, num_rows)],
        },
    )
    run.log({"success": float(rewards.mean()), "kl": 0.002 * (step + 1)}, step=step)
