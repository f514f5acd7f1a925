"""What every library is given to log: the same numbers and the same texts."""

import random

NUM_SCALARS = 20
NUM_ROLLOUTS = 128
NUM_GROUPS = 16
PROMPT_CHARS = 400
RESPONSE_CHARS = 1600
MARK = "m0"
"""The scalar that holds the number of the call, by which it is found again."""

Rows = list[tuple[str, str, str, float]]
"""Group, prompt, response, reward."""


def scalars(call: int) -> dict[str, float]:
    """Twenty numbers; the first says which call it was."""
    return {MARK: float(call), **{f"m{k}": call + k / 10 for k in range(1, NUM_SCALARS)}}


def rollouts(seed: int) -> Rows:
    """128 rollouts of 2 kB of words, eight for each of sixteen prompts."""
    generator = random.Random(seed)
    words = [
        "".join(generator.choices("abcdefghijklmnopqrstuvwxyz", k=length)) for length in (2, 4, 5, 7, 9) * 60
    ]
    prompts = [_text(generator, words, PROMPT_CHARS - 7) + "<think>" for _ in range(NUM_GROUPS)]
    per_group = NUM_ROLLOUTS // NUM_GROUPS
    rows = []
    for position in range(NUM_ROLLOUTS):
        group = position // per_group
        thought = _text(generator, words, RESPONSE_CHARS - 15) + "</think> go left"
        rows.append((f"g{group}", prompts[group], thought[-RESPONSE_CHARS:], generator.random()))
    return rows


def _text(generator: random.Random, words: list[str], num_chars: int) -> str:
    text = " ".join(generator.choices(words, k=num_chars // 3))
    return text[:num_chars]
