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
        "Retrieval accuracy @2", "share", "How often the own prompt is among the best two.", ""
    ),
    "retrieval_accuracy@4": MetricInfo(
        "Retrieval accuracy @4", "share", "How often the own prompt is among the best four.", ""
    ),
    "retrieval_accuracy@8": MetricInfo(
        "Retrieval accuracy @8", "share", "How often the own prompt is among the best eight.", ""
    ),
    "retrieval_chance": MetricInfo(
        "Chance level", "share", "Retrieval accuracy of a random ranking.", "mean over rows of w_c(r)"
    ),
    "retrieval_chance@2": MetricInfo("Chance level @2", "share", "The same for the best two.", ""),
    "retrieval_chance@4": MetricInfo("Chance level @4", "share", "The same for the best four.", ""),
    "retrieval_chance@8": MetricInfo("Chance level @8", "share", "The same for the best eight.", ""),
    "retrieval_skill": MetricInfo(
        "Retrieval skill",
        "0 chance, 1 perfect",
        "Retrieval accuracy rescaled so that 0 is chance and 1 is perfect.",
        "mean over prompts of (acc − chance) / (1 − chance)",
    ),
    "retrieval_p_value": MetricInfo(
        "Permutation p-value", "p", "How often shuffled prompt labels retrieve as well.", ""
    ),
    "mi_seq": MetricInfo(
        "Mutual information",
        "nats per sequence",
        "How much a reasoning tells about its prompt; it cannot exceed the ceiling.",
        "mean over rows of matched − marginal",
    ),
    "mi_ceiling": MetricInfo("MI ceiling", "nats per sequence", "Entropy of the prompts.", "−Σ w log w"),
    "mi_normalised": MetricInfo("MI ÷ ceiling", "share", "Mutual information as a share of its ceiling.", ""),
    "mi_token": MetricInfo(
        "Mutual information per token", "nats per token", "The paper's MI-Est.", "mean of pmi(r) / n(r)"
    ),
    "mi_zscore": MetricInfo("MI z-score", "σ", "MI per token over the spread of the marginals.", ""),
    "mi_zscore_ema": MetricInfo(
        "MI z-score (EMA)", "σ", "The same with the spread smoothed over evaluations.", ""
    ),
    "conditional_entropy": MetricInfo(
        "H(Z|X)", "nats per token", "Diversity of reasoning within one prompt.", "−mean of matched(r) / n(r)"
    ),
    "conditional_entropy_seq": MetricInfo(
        "H(Z|X) per sequence", "nats per sequence", "−mean of matched.", ""
    ),
    "reasoning_entropy": MetricInfo("H(Z)", "nats per token", "Diversity of reasoning over all prompts.", ""),
    "reasoning_entropy_seq": MetricInfo("H(Z) per sequence", "nats per sequence", "−mean of marginal.", ""),
    "marginal_std": MetricInfo("Spread of the marginals", "nats per token", "Population std over rows.", ""),
    "pmi_evalue": MetricInfo(
        "PMI e-value",
        "about 1 or less",
        "Far above 1: a leak, a wrong template or a wrong temperature.",
        "mean of exp(−pmi)",
    ),
    "valid_reasoning_rate": MetricInfo(
        "Valid reasoning", "share", "Turns with a closed, non-empty reasoning.", "scored turns / all turns"
    ),
    "reasoning_length": MetricInfo("Reasoning length", "tokens", "Mean length of scored reasoning.", ""),
    "reward": MetricInfo("Reward", "reward", "Mean reward of the batch.", ""),
    "success": MetricInfo("Success", "share", "Share of rollouts that succeeded.", ""),
    "reward_variance": MetricInfo(
        "Reward variance", "reward²", "Mean over groups of the variance within a group (K − 1).", ""
    ),
    "reward_std": MetricInfo(
        "Reward std", "reward", "Mean over groups of the standard deviation within a group (K − 1).", ""
    ),
    "reward_variance_std": MetricInfo(
        "Spread of reward variance", "reward²", "Standard deviation of the group variances.", ""
    ),
    "reward_variance_dispersion": MetricInfo(
        "Dispersion of reward variance", "ratio", "Standard deviation ÷ mean of the group variances.", ""
    ),
    "zero_variance_fraction": MetricInfo(
        "Zero-variance groups",
        "share",
        "Groups whose rewards are all equal: they carry no task gradient.",
        "",
    ),
    "zero_variance_too_easy": MetricInfo("… too easy", "share", "All rewards at the top.", ""),
    "zero_variance_too_hard": MetricInfo("… too hard", "share", "All rewards at the bottom.", ""),
    "zero_variance_reward_insensitive": MetricInfo(
        "… insensitive reward", "share", "Equal rewards although the actions differ.", ""
    ),
    "zero_variance_tied": MetricInfo("… tied", "share", "Equal rewards, cause unknown.", ""),
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
        "Within-input diversity", "× baseline", "H(Z|X) over its value at the run's baseline.", ""
    ),
    "log_evalue_warning": MetricInfo(
        "Evidence of a drop (warning)",
        "log10",
        "e-detector of the warning level; alarm at 2.9 for first turns.",
        "",
    ),
    "log_evalue_critical": MetricInfo(
        "Evidence of a drop (critical)",
        "log10",
        "e-detector of the critical level; alarm at 3.1 for first turns.",
        "",
    ),
}
