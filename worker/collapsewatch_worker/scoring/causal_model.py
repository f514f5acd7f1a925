"""What the engine must know of a model's architecture: its limits, and how to go on after a prompt.

Legend: B rows of a micro-batch, P prompt tokens, T reasoning tokens, N packed tokens, F features,
V vocabulary, H hidden size.
"""

import copy
import inspect
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from collapsewatch_worker.errors import BatchNotScorable
from collapsewatch_worker.scoring.batching import with_filler
from collapsewatch_worker.scoring.cascade import Cascade, cascades
from collapsewatch_worker.scoring.products import FastProducts
from collapsewatch_worker.scoring.readout import Readout, comes_apart

log = logging.getLogger(__name__)

NUM_TRIED = 10
"""Input embeddings on which an architecture is tried."""
REUSABLE_LAYERS = (DynamicLayer, DynamicSlidingWindowLayer)
"""Cache layers that grow by concatenation into new tensors, so a shallow copy leaves the original as it
was. Recurrent and convolutional states are written in place and are not among them."""


@dataclass(frozen=True)
class PromptState:
    """A prompt that any number of reasonings can be scored against, or longer prompts be built on."""

    prompt: torch.Tensor
    """Token ids [1, P]."""
    cache: DynamicCache | None
    """Keys and values of the prompt, one row; none when the architecture has nothing to reuse."""
    last_features: torch.Tensor | None
    """Features [1, F] of the prompt's last token, which predict the next; given with `cache`."""
    equal_lengths: bool
    """Rows of different length must not be padded to one another."""

    @property
    def num_tokens(self) -> int:
        """Length of the prompt."""
        return self.prompt.shape[1]


@dataclass(frozen=True)
class _Abilities:
    splits: bool
    """Body and head can be called one after the other."""
    cascades: bool
    """Rows can be packed behind one copy of the prompt's cache."""


_abilities: WeakKeyDictionary[Any, dict[Any, _Abilities]] = WeakKeyDictionary()
"""What was found out about each model in memory, by device, dtype and adapters at work."""


class CausalModel:
    """A causal language model of any architecture, seen as prompt encoder plus continuation."""

    def __init__(self, model: PreTrainedModel) -> None:
        """Looks at the model, and at its first use tries it on a few numbers.

        Args:
            model: or a peft model around one, whose active adapters are in the layers.

        Raises:
            BatchNotScorable: the adapter puts virtual tokens before the prompt.
        """
        model = _without_adapter_shell(model)
        self.model = model
        self._config = model.config.get_text_config(decoder=True)
        self._cacheable = not model._is_stateful and not _attends_in_chunks(self._config)
        self.device = model.device
        # The library's own annotations are too wide here for a type checker.
        modules: Any = model
        embeddings: torch.Tensor = modules.get_input_embeddings().weight
        self.num_embeddings = int(embeddings.shape[0])
        """Token ids run from 0 to this, exclusive."""
        head = modules.get_output_embeddings()
        self.vocabulary_size = int(head.weight.shape[0]) if head is not None else self.num_embeddings
        known = _abilities.setdefault(model, {})
        kind = (self.device, embeddings.dtype, self._config._attn_implementation, _adapters_at_work(model))
        if kind not in known:
            known[kind] = _tried(model, embeddings, self._cacheable)
        self._readout = Readout(model, splits=known[kind].splits)
        self._cascade = Cascade(self._readout.body) if known[kind].cascades else None
        self._products = FastProducts(model)
        accepted = inspect.signature(self._readout.body.forward).parameters
        self._takes_position_ids = "position_ids" in accepted
        self._takes_logits_to_keep = "logits_to_keep" in accepted

    @property
    def max_positions(self) -> int | None:
        """Most tokens that the model may read at once; none when it has no limit."""
        limit = getattr(self._config, "max_position_embeddings", None)
        return int(limit) if isinstance(limit, int) and limit > 0 else None

    @property
    def cascades(self) -> bool:
        """Whether reasonings can be packed behind one copy of a prompt's cache."""
        return self._cascade is not None and self._cacheable

    @property
    def splits(self) -> bool:
        """Whether features are hidden states; otherwise they are logits."""
        return self._readout.splits

    def reuses(self, longest_pair: int) -> bool:
        """Whether prompts of this batch can be kept as keys and values.

        Args:
            longest_pair: tokens of the longest prompt and reasoning together.
        """
        return self._cacheable and not self._changes_with_length(longest_pair)

    def _changes_with_length(self, longest_pair: int) -> bool:
        switches = _rotary_switch(self._config)
        # Past that length the rotary frequencies of ALL positions change with the length read.
        return switches is not None and longest_pair > switches

    @torch.inference_mode()
    def encode(
        self, prompt: Sequence[int], longest_pair: int, piece: int, *, after: PromptState | None = None
    ) -> PromptState:
        """The prompt, read once, at most `piece` tokens per forward call.

        Where the architecture offers no reusable cache the prompt is kept as tokens, and every reasoning
        is scored by a forward pass over prompt and reasoning together.

        Args:
            prompt: at least one token id.
            longest_pair: tokens of the longest prompt and reasoning together that will be asked for.
            piece: tokens per forward call.
            after: what the tokens follow; it stays as it is.
        """
        tokens_1P = torch.tensor([list(prompt)], dtype=torch.long, device=self.device)
        num_before = 0 if after is None else after.num_tokens
        prompt_1P = tokens_1P if after is None else torch.cat([after.prompt, tokens_1P], dim=1)
        if not self.reuses(longest_pair):
            return PromptState(prompt_1P, None, None, equal_lengths=self._changes_with_length(longest_pair))
        cache: Any = None if after is None or after.cache is None else _for_rows(after.cache, 1)
        for start in range(0, len(prompt), piece):
            tokens_1T = tokens_1P[:, start : start + piece]
            output = self._forward(tokens_1T, cache, num_before + start, keep=1)
            cache = getattr(output, "past_key_values", None)
            if not _is_reusable(cache, num_before + start + tokens_1T.shape[1]):
                self._cacheable = False
                return PromptState(prompt_1P, None, None, equal_lengths=False)
        last_1F = self._readout.features(output)[:, -1].clone()
        return PromptState(prompt_1P, cache, last_1F, equal_lengths=False)

    @torch.inference_mode()
    def packed_features(self, state: PromptState, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Features [N, F] after each token of the rows, row after row, without padding.

        Args:
            state: a prompt with a cache.
            rows: token ids, the longest first, none empty.
        """
        assert self._cascade is not None
        assert state.cache is not None
        num_tokens = sum(map(len, rows))
        rows = with_filler(rows, self._products.num_rows_for(num_tokens) - num_tokens)
        tokens = [token for row in rows for token in row]
        tokens_1N = torch.tensor([tokens], dtype=torch.long, device=self.device)
        lengths = [len(row) for row in rows]
        with self._products.used():
            output = self._cascade.forward(state.cache, state.num_tokens, lengths, input_ids=tokens_1N)
        return self._readout.features(output)[0, :num_tokens]

    @torch.inference_mode()
    def padded_features(
        self, state: PromptState, tokens_BT: torch.Tensor, piece: int
    ) -> Iterator[torch.Tensor]:
        """Features [B, t, F] that predict the tokens, in blocks along T; together they cover it once.

        Rows are padded on the right, where causal attention keeps the padding from being seen. The prompt's
        cache is copied for each row.
        """
        num_rows, num_tokens = tokens_BT.shape
        if state.cache is None or state.last_features is None:
            # The last token is only predicted, but where all depends on the length read, it counts.
            read_BT = tokens_BT if state.equal_lengths else tokens_BT[:, :-1]
            inputs_BT = torch.cat([state.prompt.expand(num_rows, -1), read_BT], dim=1)
            keep = num_tokens + state.equal_lengths
            features_BTF = self._readout.features(self._forward(inputs_BT, None, 0, keep))
            yield features_BTF[:, -keep:][:, :num_tokens]
            return
        yield state.last_features.expand(num_rows, -1).unsqueeze(1)
        cache = _for_rows(state.cache, num_rows)
        # The last token is only predicted, so it is never read.
        for start in range(0, num_tokens - 1, piece):
            inputs_BT = tokens_BT[:, start : min(start + piece, num_tokens - 1)]
            yield self._readout.features(self._forward(inputs_BT, cache, state.num_tokens + start, 0))

    @torch.inference_mode()
    def log_probs(
        self, features_NF: torch.Tensor, targets_N: torch.Tensor, *, temperature: float, max_logits: int
    ) -> torch.Tensor:
        """Log-probability [N] of the token after each, in float32; at most `max_logits` logits at once."""
        with self._products.used():
            return self._readout.log_probs(
                features_NF, targets_N, temperature=temperature, max_logits=max_logits
            )

    @torch.inference_mode()
    def next_log_probs(self, state: PromptState, tokens: Sequence[int], temperature: float) -> torch.Tensor:
        """Log-probability [len(tokens)] of each token right after a prompt with a cache, in float32."""
        assert state.last_features is not None
        logits_1V = self._readout.logits(state.last_features)
        # All are read off one softmax: many reasonings of one token would fill a GPU with copies of it.
        log_probs_1V = torch.log_softmax(logits_1V.float() / temperature, dim=-1)
        return log_probs_1V[0, torch.tensor(tokens, dtype=torch.long, device=logits_1V.device)]

    def _forward(self, tokens_BT: torch.Tensor, cache: DynamicCache | None, num_read: int, keep: int) -> Any:
        """One call of the body; logits of the last `keep` positions at least, of all when it is 0."""
        num_rows, num_tokens = tokens_BT.shape
        end = num_read + num_tokens
        options: dict[str, Any] = {"use_cache": self._cacheable}
        if cache is not None:
            options["past_key_values"] = cache
        if self._takes_position_ids:
            positions_T = torch.arange(num_read, end, device=self.device)
            options["position_ids"] = positions_T.expand(num_rows, -1)
        if self._takes_logits_to_keep:
            options["logits_to_keep"] = keep
        mask_BT = torch.ones((num_rows, end), dtype=torch.long, device=self.device)
        with self._products.used():
            return self._readout.body(input_ids=tokens_BT, attention_mask=mask_BT, **options)


@torch.inference_mode()
def _tried(model: Any, embeddings: torch.Tensor, cacheable: bool) -> _Abilities:
    """What the model can do, seen on a few of its own input embeddings."""
    if embeddings.is_meta:
        return _Abilities(splits=False, cascades=False)
    # Given as embeddings, which are the same whatever the vocabulary; spread, so that no padding is met.
    chosen = torch.linspace(0, len(embeddings) - 1, NUM_TRIED).long().to(embeddings.device)
    embeddings_1TH = embeddings[chosen].unsqueeze(0)
    splits = comes_apart(model, embeddings_1TH)
    found = _Abilities(
        splits, cascades=splits and cacheable and cascades(model.get_decoder(), embeddings_1TH)
    )
    log.info(
        "model tried",
        extra={"architecture": type(model).__name__, "splits": found.splits, "cascades": found.cascades},
    )
    return found


def _without_adapter_shell(model: Any) -> PreTrainedModel:
    """The transformers model inside a peft model, with the adapters in its layers; else the model itself."""
    if not hasattr(model, "get_base_model"):
        bare: PreTrainedModel = model
        return bare
    if getattr(getattr(model, "active_peft_config", None), "is_prompt_learning", False):
        raise BatchNotScorable("the adapter puts virtual tokens before the prompt, which is not supported")
    inner: PreTrainedModel = model.get_base_model()
    return inner


def _adapters_at_work(model: torch.nn.Module) -> int:
    """A number that tells the places and parts of the adapters that are switched on, whatever their names.

    They may hang in later than the model was first tried, and what it could do bare need not hold with them.
    Successive versions of one adapter have one number.
    """
    found = []
    for path, layer in model.named_modules():
        active: Any = getattr(layer, "active_adapters", None)
        # The whole model has a method of that name.
        if not isinstance(active, list | tuple) or getattr(layer, "disable_adapters", False):
            continue
        parts = [
            (name, type(part).__name__)
            for name, part in layer.named_children()
            if isinstance(part, torch.nn.ModuleDict | torch.nn.ParameterDict)
            and any(adapter in part for adapter in active)
        ]
        if parts:
            found.append((path, tuple(parts)))
    return hash(tuple(found))


def _is_reusable(cache: object, num_read: int) -> bool:
    """Whether a cache holds keys and values of every layer, and nothing else."""
    if type(cache) is not DynamicCache or not cache.layers:
        return False
    layers: list[Any] = cache.layers
    return all(
        type(layer) in REUSABLE_LAYERS
        and layer.is_initialized
        and layer.get_seq_length() == num_read
        # The library keeps all keys instead of none when each token sees itself alone.
        and getattr(layer, "sliding_window", None) != 1
        for layer in layers
    )


def _for_rows(cache: DynamicCache, num_rows: int) -> DynamicCache:
    """A cache of its own for `num_rows` rows that all begin with the cached prompt."""
    copied = copy.copy(cache)
    layers: list[Any] = [copy.copy(layer) for layer in cache.layers]
    for layer in layers:
        # Views, not copies: the first concatenation makes the rows real.
        layer.keys = layer.keys.expand(num_rows, -1, -1, -1)
        layer.values = layer.values.expand(num_rows, -1, -1, -1)
    copied.layers = layers
    return copied


def _attends_in_chunks(config: Any) -> bool:
    """Attention in fixed chunks of positions; its cache is not tested, so it is not reused."""
    return bool(getattr(config, "attention_chunk_size", None))


def _rotary_switch(config: Any) -> int | None:
    """Length above which `longrope` frequencies change for all positions, none for other kinds."""
    parameters = getattr(config, "rope_parameters", None) or {}
    kinds = [parameters, *(value for value in parameters.values() if isinstance(value, dict))]
    for kind in kinds:
        if kind.get("rope_type") == "longrope":
            original = kind.get("original_max_position_embeddings")
            original = original or getattr(config, "original_max_position_embeddings", None)
            return int(original or config.max_position_embeddings)
    return None
