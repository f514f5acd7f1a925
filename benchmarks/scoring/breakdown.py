"""Where the engine's time goes, by kind of operation."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from transformers import AttentionInterface, PreTrainedModel

from benchmarks.scoring.contestants import ENGINE
from benchmarks.scoring.work import Work
from collapsewatch_worker.scoring.cascade import IMPLEMENTATION, cascade_attention

PRODUCTS = "matrix products"
ATTENTION = "attention"
REDUCTION = "log-softmax of the logits"
COPIES = "copies and gathers"
ELEMENTWISE = "element by element (norms, rotations, activations)"
PYTHON = "Python, dispatch and views"

_OPERATIONS = {
    PRODUCTS: "mm addmm bmm baddbmm linear matmul _linear_pointwise mkldnn_linear",
    # The layers of a decoder with RMS norms use none of these.
    REDUCTION: "logsumexp log_softmax _log_softmax gather amax max exp exp_ sum sub log log_",
    COPIES: "copy_ cat index index_select clone contiguous embedding index_copy_ index_put_ _index_put_impl_",
    PYTHON: "view _unsafe_view reshape _reshape_alias transpose t permute slice narrow select split chunk "
    "unbind as_strided expand unsqueeze squeeze empty empty_like empty_strided resize_ to _to_copy item "
    "detach _local_scalar_dense result_type lift_fresh",
}
_KINDS = {name: kind for kind, names in _OPERATIONS.items() for name in names.split()}


def breakdown(model: PreTrainedModel, work: Work) -> dict[str, float]:
    """Share of the engine's CPU time for each kind of operation; together they are 1.

    An operation's own time counts, without that of the operations it calls. The profiler costs time itself,
    most of it between the operations, so the share of Python and dispatch is an upper limit.
    """
    activities = [ProfilerActivity.CPU]
    with _attention_named(), profile(activities=activities) as seen, torch.profiler.record_function("whole"):
        ENGINE.score(model, work)
    kinds: dict[str, float] = defaultdict(float)
    for event in seen.events() or ():
        kinds[_kind_within(event)] += float(event.self_cpu_time_total)
    total = sum(kinds.values())
    return {kind: time / total for kind, time in sorted(kinds.items(), key=lambda item: -item[1])}


@contextmanager
def _attention_named() -> Iterator[None]:
    """Within it the engine's attention leaves its name in a profile, above its products and softmax."""

    def named(*given: Any, **options: Any) -> Any:
        with torch.profiler.record_function(ATTENTION):
            return cascade_attention(*given, **options)

    AttentionInterface.register(IMPLEMENTATION, named)
    try:
        yield
    finally:
        AttentionInterface.register(IMPLEMENTATION, cascade_attention)


def _kind_within(event: Any) -> str:
    """The kind of an operation of the profile; attention for whatever it consists of."""
    above = event
    while above is not None:
        if above.name == ATTENTION:
            return ATTENTION
        above = above.cpu_parent
    return kind_of(event.name)


def kind_of(operation_name: str) -> str:
    """What kind of work an operation of the profile is, by its name."""
    library, _, operation = operation_name.partition("::")
    if library not in ("aten", "mkldnn"):
        return PYTHON
    if "attention" in operation:
        return ATTENTION
    return _KINDS.get(operation, ELEMENTWISE)
