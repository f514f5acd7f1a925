"""The ways to score a batch that are timed side by side.

Legend: R reasonings, P prompts, B rows of a forward pass, S tokens of a prompt and a reasoning together,
T tokens of the longest reasoning, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from benchmarks.scoring.bound import Product, onednn_product
from benchmarks.scoring.work import Work
from collapsewatch_worker.scoring.engine import cross_log_probs, cross_token_log_probs

Floats = npt.NDArray[np.float64]

_TEMPERATURE = 1.0


@dataclass(frozen=True, slots=True)
class Contestant:
    """One way to score a batch."""

    name: str
    label: str
    score: Callable[[PreTrainedModel, Work], Floats]
    """Log-probs [R, P, T], NaN past the end of a reasoning; the engine's are summed, [R, P]."""


@torch.no_grad()
def naive(model: PreTrainedModel, work: Work) -> Floats:
    """One pair at a time, nothing padded, log-softmax over every position: what one writes first."""
    tokens_RPT = _empty(work)
    for row, reasoning in enumerate(work.reasonings):
        for column, prompt in enumerate(work.prompts):
            ids_1S = torch.tensor([prompt + reasoning], device=model.device)
            logits_SV = model(input_ids=ids_1S, use_cache=False).logits[0]
            log_probs_SV = torch.log_softmax(logits_SV.float() / _TEMPERATURE, dim=-1)
            predicting_TV = log_probs_SV[len(prompt) - 1 : -1]
            picked_T = predicting_TV.gather(-1, ids_1S[0, len(prompt) :, None])[:, 0]
            tokens_RPT[row, column, : len(reasoning)] = picked_T.double().cpu().numpy()
    return tokens_RPT


@torch.no_grad()
def reference(model: PreTrainedModel, work: Work, rows_per_forward: int) -> Floats:
    """The reference scheme: one prompt at a time, all reasonings padded to the longest and read after it.

    Each forward pass computes the logits of all its positions; those of the reasoning are cut out afterwards.
    Source: RAGEN at commit 20daedc, `collapse_metrics.py` and `dp_actor.py`. There one row makes a forward
    pass (`log_prob_micro_batch_size_per_gpu: 1`), whatever `collapse_detection.micro_batch_size` says: its
    slices are joined again before the model sees them.
    """
    tokens_RPT = _empty(work)
    num_rows, _, longest = tokens_RPT.shape
    lengths_R = torch.tensor([len(reasoning) for reasoning in work.reasonings])
    mask_RT = (torch.arange(longest) < lengths_R[:, None]).long()
    reasonings_RT = torch.tensor([row + [0] * (longest - len(row)) for row in work.reasonings])
    for column, prompt in enumerate(work.prompts):
        prompts_RS = torch.tensor(prompt).expand(num_rows, -1)
        ids_RS = torch.cat([prompts_RS, reasonings_RT], dim=1).to(model.device)
        mask_RS = torch.cat([torch.ones_like(prompts_RS), mask_RT], dim=1).to(model.device)
        for start in range(0, num_rows, rows_per_forward):
            some = slice(start, start + rows_per_forward)
            picked_BT = _reference_rows(model, ids_RS[some], mask_RS[some], longest)
            # Written straight into its place, so that both sides keep the same and no more.
            tokens_RPT[some, column] = picked_BT.double().cpu().numpy()
    for row, reasoning in enumerate(work.reasonings):
        tokens_RPT[row, :, len(reasoning) :] = np.nan
    return tokens_RPT


def _reference_rows(
    model: PreTrainedModel, ids_BS: torch.Tensor, mask_BS: torch.Tensor, num_tokens: int
) -> torch.Tensor:
    positions_BS = torch.arange(ids_BS.shape[1], device=ids_BS.device).expand(len(ids_BS), -1)
    output = model(input_ids=ids_BS, attention_mask=mask_BS, position_ids=positions_BS, use_cache=False)
    logits_BSV = output.logits.div_(_TEMPERATURE)
    predicting_BTV = logits_BSV[:, -num_tokens - 1 : -1]
    log_probs_BTV = torch.log_softmax(predicting_BTV.float(), dim=-1)
    return log_probs_BTV.gather(-1, ids_BS[:, -num_tokens:, None]).squeeze(-1)


def reference_onednn(model: PreTrainedModel, work: Work) -> Floats:
    """The reference scheme with linear layers by oneDNN, which tells that library's share of a gain."""
    product = onednn_product()
    if product is None:
        return reference(model, work, 1)
    layers = [module for module in model.modules() if type(module) is torch.nn.Linear]
    for layer in layers:
        vars(layer)["forward"] = partial(_multiplied, product, layer.weight)
    try:
        return reference(model, work, 1)
    finally:
        for layer in layers:
            del vars(layer)["forward"]


def _multiplied(product: Product, weight: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    return product(inputs, weight)


def _empty(work: Work) -> Floats:
    longest = max(map(len, work.reasonings))
    return np.full((len(work.reasonings), len(work.prompts), longest), np.nan)


NAIVE = Contestant("naive", "(a) naive pairs", naive)
REFERENCE = Contestant(
    "reference", "(b) reference scheme, 1 row a forward", lambda model, work: reference(model, work, 1)
)
REFERENCE_16 = Contestant(
    "reference-16", "(b) reference scheme, 16 rows a forward", lambda model, work: reference(model, work, 16)
)
REFERENCE_ONEDNN = Contestant(
    "reference-onednn", "(b) with oneDNN's matrix products, 1 row a forward", reference_onednn
)
ENGINE = Contestant(
    "engine", "(c) engine", lambda model, work: cross_log_probs(model, work.prompts, work.reasonings)
)
CONTESTANTS = {one.name: one for one in (NAIVE, REFERENCE, REFERENCE_ONEDNN, REFERENCE_16, ENGINE)}


def worst_difference(expected_RPT: Floats, model: PreTrainedModel, work: Work) -> float:
    """Largest distance of the engine's log-prob of a token from the expected one, in nats.

    Raises:
        ValueError: the engine left a token out, or scored one that is not there.
    """
    found_RPT = cross_token_log_probs(model, work.prompts, work.reasonings)
    if not np.array_equal(np.isnan(found_RPT), np.isnan(expected_RPT)):
        raise ValueError("the engine scored other tokens than the reference scheme")
    return float(np.nanmax(np.abs(found_RPT - expected_RPT)))


def worst_sum_difference(expected_RPT: Floats, found_RP: Floats) -> float:
    """The same between sums over a reasoning, divided by its number of tokens."""
    num_tokens_RP = np.sum(~np.isnan(expected_RPT), axis=2)
    return float(np.max(np.abs(np.nansum(expected_RPT, axis=2) - found_RP) / num_tokens_RP))
