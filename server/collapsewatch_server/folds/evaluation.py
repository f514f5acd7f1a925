"""One scored batch as the folds take it."""

from collections.abc import Mapping
from dataclasses import dataclass

from collapsewatch.contracts.scoring import MetricValue, ScopeEvaluation


@dataclass(frozen=True)
class Evaluation:
    """One scope of one scored batch, as the folds take it, in step order."""

    step: int
    scorer: str
    """Stable label of who scored; a change starts a new baseline."""
    evaluation: ScopeEvaluation
    batch_metrics: Mapping[str, MetricValue]
    """Of the whole batch: reward, its variance, valid_reasoning_rate."""

    def value(self, metric: str) -> float | None:
        """The metric's value, of the scope or else of the batch; none when it is absent."""
        found = self.evaluation.metrics.get(metric) or self.batch_metrics.get(metric)
        return None if found is None else found.value

    def prompt_skills(self) -> list[float]:
        """Skill of each prompt that has rows: 0 chance, 1 perfect, -c / (1 - c) never right."""
        return [
            (prompt.accuracy - prompt.chance) / (1.0 - prompt.chance)
            for prompt in self.evaluation.prompts
            if prompt.num_rows > 0 and prompt.chance < 1.0
        ]
