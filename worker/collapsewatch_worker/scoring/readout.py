"""A causal language model cut in two: all that comes before its head, and the head alone.

The head is the model's own `forward` with everything before it replaced, for the call, by hidden states that
were computed earlier. So whatever an architecture does to its logits is done here as well.

Legend: B rows, T tokens, N tokens in any arrangement, F features, V vocabulary.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

from collapsewatch_worker.scoring.products import stepped_down

MAX_RELATIVE_ERROR = {torch.float32: 1e-4, torch.float64: 1e-4}
"""Most that two ways to the same numbers may differ, as a share of their norm."""
MAX_HALF_ERROR = 0.1
"""The same for narrower types, where rounding alone makes a percent."""
CPU_SLICE = 2**18
"""Logits per thread whose softmax is taken at once on a CPU: 1 MiB in float32."""
FAILURES = (RuntimeError, ValueError, TypeError, AttributeError, KeyError, IndexError, NotImplementedError)
"""What an architecture that cannot be called in some way may answer."""


class Readout:
    """The two halves of a model; the second is the identity where the model does not come apart."""

    def __init__(self, model: PreTrainedModel, *, splits: bool) -> None:
        """Cuts the model in two, or keeps it in one piece when `splits` is false."""
        # The library's own annotations are too wide here for a type checker.
        whole: Any = model
        self._model = whole
        self.splits = splits
        self.body: Any = whole.get_decoder() if splits else whole
        """What is called with tokens."""
        self._output_type: type[Any] | None = None

    def features(self, output: Any) -> torch.Tensor:
        """What the body's output says of each token [B, T, F]: hidden states, or logits when in one piece."""
        if not self.splits:
            logits: torch.Tensor = output.logits
            return logits
        self._output_type = type(output)
        hidden: torch.Tensor = output.last_hidden_state
        return hidden

    def logits(self, features_NF: torch.Tensor) -> torch.Tensor:
        """Logits [N, V] that follow each token, in the model's dtype."""
        if not self.splits:
            return features_NF
        assert self._output_type is not None
        output = self._output_type(last_hidden_state=features_NF.unsqueeze(0))
        tokens_1N = torch.zeros((1, len(features_NF)), dtype=torch.long, device=self._model.device)
        with _answering(self.body, output):
            logits_1NV: torch.Tensor = self._model(input_ids=tokens_1N, use_cache=False).logits
        return logits_1NV[0]

    def log_probs(
        self, features_NF: torch.Tensor, targets_N: torch.Tensor, *, temperature: float, max_logits: int
    ) -> torch.Tensor:
        """Log-probability [N] of the token after each, in float32; at most `max_logits` logits at once."""
        picked = []
        step = stepped_down(max(1, max_logits // self._vocabulary_size(features_NF)))
        for start in range(0, len(targets_N), step):
            targets_C = targets_N[start : start + step]
            # Without a name for the logits: one would keep a chunk alive while the next is computed.
            log_probs_C = target_log_probs(
                self.logits(features_NF[start : start + step]), targets_C, temperature
            )
            picked.append(log_probs_C.to(targets_N.device))
        return torch.cat(picked)

    def _vocabulary_size(self, features_NF: torch.Tensor) -> int:
        head: Any = self._model.get_output_embeddings()
        return int(features_NF.shape[-1] if not self.splits or head is None else head.weight.shape[0])


def target_log_probs(logits_NV: torch.Tensor, targets_N: torch.Tensor, temperature: float) -> torch.Tensor:
    """log softmax(logits / temperature) at each target [N], in float32; the logits stay as they are."""
    num_tokens, vocabulary_size = logits_NV.shape
    step = max(1, num_tokens)
    if logits_NV.device.type == "cpu":
        # The passes over the vocabulary stay in the core's own cache.
        step = max(1, torch.get_num_threads() * CPU_SLICE // vocabulary_size)
    targets_N1 = targets_N.to(logits_NV.device).unsqueeze(-1)
    picked_N = torch.empty(num_tokens, dtype=torch.float32, device=logits_NV.device)
    for start in range(0, num_tokens, step):
        logits_SV = logits_NV[start : start + step].float()
        if temperature != 1.0:
            logits_SV = logits_SV / temperature
        log_probs_SV = torch.log_softmax(logits_SV, dim=-1)
        picked_N[start : start + step] = log_probs_SV.gather(-1, targets_N1[start : start + step]).squeeze(-1)
    return picked_N


def comes_apart(model: PreTrainedModel, embeddings_1TH: torch.Tensor) -> bool:
    """Whether the two halves give the logits of the whole, on a few given input embeddings."""
    try:
        whole: torch.Tensor = model(inputs_embeds=embeddings_1TH, use_cache=False).logits
        readout = Readout(model, splits=True)
        if readout.body is model:
            return False
        halves = readout.logits(
            readout.features(readout.body(inputs_embeds=embeddings_1TH, use_cache=False))[0]
        )
    except FAILURES as error:
        if is_out_of_memory(error):
            raise
        return False
    return agree(halves, whole[0])


def agree(got: torch.Tensor, want: torch.Tensor) -> bool:
    """Whether two tensors [N, F] are equal, token by token, up to the rounding of their type."""
    if got.shape != want.shape:
        return False
    limit = MAX_RELATIVE_ERROR.get(want.dtype, MAX_HALF_ERROR)
    got, want = got.double(), want.double().to(got.device)
    return bool(((got - want).norm(dim=-1) <= limit * want.norm(dim=-1)).all())


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the device has no memory left."""
    # The CPU allocator has no error class of its own.
    return isinstance(error, torch.OutOfMemoryError) or "not enough memory" in str(error)


@contextmanager
def _answering(module: Any, output: object) -> Iterator[None]:
    """Makes a module answer every call with the given output, whatever it is asked."""
    absent = object()
    own = vars(module).get("forward", absent)
    vars(module)["forward"] = lambda *_args, **_options: output
    try:
        yield
    finally:
        if own is absent:
            del vars(module)["forward"]
        else:
            vars(module)["forward"] = own
