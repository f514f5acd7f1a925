"""What an evaluation must bring before anything is concluded from it. Source: docs/metrics.md section 5."""

from collapsewatch_server.folds.evaluation import Evaluation

MIN_PROMPTS = 8
MIN_ROWS = 32
MIN_VALID_REASONING_RATE = 0.8
MAX_PMI_EVALUE = 100.0


def unmet_gate(evaluation: Evaluation) -> str | None:
    """The first gate that the evaluation does not meet, as a clause for people; none when it meets all.

    A metric that is absent because nobody could compute it (no log-probs, so no `pmi_evalue`) is no gate;
    one that is absent although its siblings are there is.
    """
    scope = evaluation.evaluation
    if scope.num_prompts < MIN_PROMPTS:
        return f"{scope.num_prompts} distinct prompts, at least {MIN_PROMPTS} are needed"
    if scope.num_rows < MIN_ROWS:
        return f"{scope.num_rows} scored traces, at least {MIN_ROWS} are needed"
    rate = evaluation.value("valid_reasoning_rate")
    if rate is not None and rate < MIN_VALID_REASONING_RATE:
        return f"valid reasoning rate {rate:.2f}, at least {MIN_VALID_REASONING_RATE:.2f} is needed"
    evalue = evaluation.value("pmi_evalue")
    if evalue is not None and evalue >= MAX_PMI_EVALUE:
        return (
            f"PMI e-value {evalue:.3g}, below {MAX_PMI_EVALUE:.0f} is needed: "
            "the scorer does not fit the sampler (leak, template or temperature)"
        )
    if evalue is None and "mi_seq" in scope.metrics:
        return f"no PMI e-value ({scope.absent.get('pmi_evalue', 'not sent')})"
    if "retrieval_skill" not in scope.metrics or not evaluation.prompt_skills():
        return f"no retrieval skill ({scope.absent.get('retrieval_skill', 'not sent')})"
    return None
