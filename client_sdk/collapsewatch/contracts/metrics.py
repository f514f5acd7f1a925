"""Names of the metrics, once for code, SQL, API and page. Source: METRICS.md."""

from typing import NamedTuple

BATCH_SCOPE = "batch"
"""Scope of what is measured on the whole batch: reward, its variance, valid reasoning rate."""
TRAINER_SCOPE = "trainer"
"""Scope of what `run.log` sends."""
FIRST_TURN_SCOPE = "first_turn"
RAGEN_PREFIX = "ragen/"
"""Before every variant that keeps the public code's own definition."""


class MetricInfo(NamedTuple):
    """What a person must know to read a number."""

    title: str
    unit: str
    explanation: str
    formula: str = ""


METRICS: dict[str, MetricInfo] = {
    "retrieval_accuracy": MetricInfo(
        "Retrieval accuracy",
        "share",
        "How often a reasoning fits its own prompt better than every other prompt of the batch.",
        "mean over rows of [argmax_j L(r, j) = own prompt], ties shared",
    ),
    "retrieval_accuracy@2": MetricInfo(
        "Retrieval accuracy @2",
        "share",
        "How often the own prompt is among the best two of the batch.",
        "mean over rows of [own prompt among the best 2 by L(r, j)], ties shared",
    ),
    "retrieval_accuracy@4": MetricInfo(
        "Retrieval accuracy @4",
        "share",
        "How often the own prompt is among the best four of the batch.",
        "mean over rows of [own prompt among the best 4 by L(r, j)], ties shared",
    ),
    "retrieval_accuracy@8": MetricInfo(
        "Retrieval accuracy @8",
        "share",
        "How often the own prompt is among the best eight of the batch.",
        "mean over rows of [own prompt among the best 8 by L(r, j)], ties shared",
    ),
    "retrieval_chance": MetricInfo(
        "Chance level", "share", "Retrieval accuracy of a random ranking.", "mean over rows of w_c(r)"
    ),
    "retrieval_chance@2": MetricInfo(
        "Chance level @2",
        "share",
        "How often a random ranking has the own prompt among the best two.",
        "hypergeometric: 2 draws of the N prompts, identical ones counted as one",
    ),
    "retrieval_chance@4": MetricInfo(
        "Chance level @4",
        "share",
        "How often a random ranking has the own prompt among the best four.",
        "hypergeometric: 4 draws of the N prompts, identical ones counted as one",
    ),
    "retrieval_chance@8": MetricInfo(
        "Chance level @8",
        "share",
        "How often a random ranking has the own prompt among the best eight.",
        "hypergeometric: 8 draws of the N prompts, identical ones counted as one",
    ),
    "retrieval_skill": MetricInfo(
        "Retrieval skill",
        "0 chance, 1 perfect",
        "Retrieval accuracy rescaled so that 0 is chance and 1 is perfect.",
        "mean over prompts of (acc − chance) / (1 − chance)",
    ),
    "retrieval_p_value": MetricInfo(
        "Permutation p-value",
        "p",
        "How often shuffled prompt labels retrieve as well; small when the retrieval cannot be chance.",
        "share of shuffles of the labels between groups with accuracy ≥ measured",
    ),
    "mi_seq": MetricInfo(
        "Mutual information",
        "nats per sequence",
        "How much a reasoning tells about its prompt; it cannot exceed the ceiling.",
        "mean over rows of matched − marginal",
    ),
    "mi_ceiling": MetricInfo(
        "MI ceiling",
        "nats per sequence",
        "The most that a reasoning can tell about which prompt it belongs to: the entropy of the prompts.",
        "−Σ_j w_j log w_j, log N without duplicates",
    ),
    "mi_normalised": MetricInfo(
        "MI ÷ ceiling",
        "share",
        "Mutual information as a share of the most that it can be.",
        "mi_seq / mi_ceiling",
    ),
    "mi_token": MetricInfo(
        "Mutual information per token",
        "nats per token",
        "How much each token of a reasoning tells about its prompt: the paper’s MI-Est.",
        "mean over rows of pmi(r) / n(r)",
    ),
    "mi_zscore": MetricInfo(
        "MI z-score",
        "σ",
        "Mutual information per token in units of how much the marginals differ between reasonings.",
        "mean of pmi(r) / n(r), over (marginal_std + 0.001)",
    ),
    "mi_zscore_ema": MetricInfo(
        "MI z-score (EMA)",
        "σ",
        "The z-score with a spread that is smoothed over the evaluations, so that single steps jump less.",
        "spread s_t = 0.9 s_(t−1) + 0.1 marginal_std_t",
    ),
    "conditional_entropy": MetricInfo(
        "H(Z|X)", "nats per token", "Diversity of reasoning within one prompt.", "−mean of matched(r) / n(r)"
    ),
    "conditional_entropy_seq": MetricInfo(
        "H(Z|X) per sequence",
        "nats per sequence",
        "Diversity of whole reasonings within one prompt; longer reasonings have more of it.",
        "−mean over rows of matched(r)",
    ),
    "reasoning_entropy": MetricInfo(
        "H(Z)",
        "nats per token",
        "Diversity of reasoning over all prompts of the batch together.",
        "−mean over rows of marginal(r) / n(r)",
    ),
    "reasoning_entropy_seq": MetricInfo(
        "H(Z) per sequence",
        "nats per sequence",
        "Diversity of whole reasonings over all prompts; longer reasonings have more of it.",
        "−mean over rows of marginal(r)",
    ),
    "marginal_std": MetricInfo(
        "Spread of the marginals",
        "nats per token",
        "How much reasonings differ in how likely they are over all prompts.",
        "population std over rows of marginal(r) / n(r)",
    ),
    "pmi_evalue": MetricInfo(
        "PMI e-value",
        "about 1 or less",
        "Far above 1 the scorer does not fit the sampler: a leak, a wrong template or a wrong temperature.",
        "mean over rows of exp(−pmi(r))",
    ),
    "valid_reasoning_rate": MetricInfo(
        "Valid reasoning",
        "share",
        "Turns with a closed, non-empty reasoning; others cannot be scored.",
        "scored turns / all turns",
    ),
    "reasoning_length": MetricInfo(
        "Reasoning length",
        "tokens",
        "How long the scored reasonings are on average.",
        "mean of n(r)",
    ),
    "reward": MetricInfo(
        "Reward",
        "reward",
        "What the rollouts of the batch earned on average.",
        "mean over rollouts of R",
    ),
    "success": MetricInfo(
        "Success",
        "share",
        "How many of the rollouts succeeded.",
        "successes / rollouts that say whether they succeeded",
    ),
    "reward_variance": MetricInfo(
        "Reward variance",
        "reward²",
        "How much rewards differ within a prompt: where they do not, the task gives no gradient.",
        "mean over groups of Σ (R − mean)² / (K − 1)",
    ),
    "reward_std": MetricInfo(
        "Reward std",
        "reward",
        "How much rewards differ within a prompt, in the unit of the reward.",
        "mean over groups of √(Σ (R − mean)² / (K − 1))",
    ),
    "reward_variance_std": MetricInfo(
        "Spread of reward variance",
        "reward²",
        "How unequal the prompts are in the variance of their rewards.",
        "std over groups of the variance within a group",
    ),
    "reward_variance_dispersion": MetricInfo(
        "Dispersion of reward variance",
        "ratio",
        "The same as a multiple of the mean: high when few prompts have all the variance.",
        "std ÷ mean over groups of the variance within a group",
    ),
    "zero_variance_fraction": MetricInfo(
        "Zero-variance groups",
        "share",
        "Groups whose rewards are all equal: they carry no task gradient.",
        "groups with std ≤ 1e-10 / groups of two or more rollouts",
    ),
    "zero_variance_too_easy": MetricInfo(
        "… too easy",
        "share",
        "Groups whose rewards are all at the top of the range: nothing is left to learn.",
        "groups with all R = maximum / groups",
    ),
    "zero_variance_too_hard": MetricInfo(
        "… too hard",
        "share",
        "Groups whose rewards are all at the bottom of the range: nothing worked.",
        "groups with all R = minimum / groups",
    ),
    "zero_variance_reward_insensitive": MetricInfo(
        "… insensitive reward",
        "share",
        "Groups with equal rewards although the actions differ: the reward does not see the difference.",
        "tied groups with different actions / groups",
    ),
    "zero_variance_tied": MetricInfo(
        "… tied",
        "share",
        "Groups with equal rewards for which no cause is known.",
        "tied groups of no other cause / groups",
    ),
    "compression_distance_ratio": MetricInfo(
        "Compression distance ratio",
        "ratio",
        "How much more alike reasonings of one prompt are than those of two, told by a compressor without "
        "a model; it rises to 1 when the prompt no longer matters.",
        "mean NCD within a prompt / mean NCD across prompts, texts cut to equal length",
    ),
    "compression_ratio": MetricInfo(
        "Compression ratio",
        "share",
        "How small a compressor makes all reasonings together; small when they repeat each other.",
        "compressed bytes / bytes",
    ),
    "diversity_ratio": MetricInfo(
        "Within-input diversity",
        "× baseline",
        "How diverse reasoning is within a prompt, as a multiple of the run’s baseline.",
        "conditional_entropy / its mean over evaluations 2 to 11",
    ),
    "log_evalue_warning": MetricInfo(
        "Evidence of a drop (warning)",
        "log10",
        "How strongly the steps speak for a drop below 0.7 of the baseline; alarm at 2.9 for first turns.",
        "log10 of the mean over λ of M_t(λ), M_t = max(M_(t−1), 1) · Π_i [1 + λ (m − acc_i)]",
    ),
    "log_evalue_critical": MetricInfo(
        "Evidence of a drop (critical)",
        "log10",
        "How strongly the steps speak for a drop below half the baseline; alarm at 3.1 for first turns.",
        "the same with half the baseline as the floor m",
    ),
}
