"""The ten lines that a trainer needs. Start `collapsewatch serve` first, then run this file."""

import random

import collapsewatch

QUESTIONS = [f"What is {a} + {b}?" for a in range(3, 7) for b in range(11, 13)]


def sample(question: str, step: int) -> tuple[str, float]:
    """Stands for your policy and your environment: a response and its reward."""
    first, second = (int(word.rstrip("?")) for word in question.split() if word.rstrip("?").isdigit())
    answer = first + second + random.choice([0, 0, 1])
    # The reasoning forgets the question as training goes on: this is what the page will show.
    thought = f"{first} and {second} make {answer}." if random.random() > step / 20 else "Let me think."
    return f"{thought}</think>{answer}", float(answer == first + second)


def main() -> None:
    """Twenty steps of a pretended training, instrumented."""
    with collapsewatch.init(project="examples", name="minimal", config={"lr": 1e-6}) as run:
        print(f"watch it at {run.url}")
        for step in range(20):
            questions = [question for question in QUESTIONS for _ in range(8)]
            samples = [sample(question, step) for question in questions]
            run.log_rollouts(
                step,
                prompts=[f"{question}\n<think>" for question in questions],
                responses=[response for response, _ in samples],
                rewards=[reward for _, reward in samples],
                reward_range=(0, 1),
            )
            run.log({"success": sum(reward for _, reward in samples) / len(samples)})


if __name__ == "__main__":
    main()
