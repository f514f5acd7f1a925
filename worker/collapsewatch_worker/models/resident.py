"""Models in memory, and the handles by which they are scored with.

One module may come to hold one version of its weights after the other, and several adapters. A handle is
for one of them and says so when it is gone.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from transformers import PreTrainedModel

from collapsewatch_worker.batches.partition import Tokenizer
from collapsewatch_worker.errors import CheckpointNotReady
from collapsewatch_worker.models.adapters import AdapterSwitch
from collapsewatch_worker.models.folders import Fingerprint

Key = tuple[Path, Fingerprint]
"""A folder and what was in it."""


@dataclass(frozen=True)
class HungAdapter:
    """An adapter that hangs in a model."""

    name: str
    """By which `AdapterSwitch` knows it."""
    tokenizer: Tokenizer | None
    num_bytes: int


@dataclass(eq=False)
class Resident:
    """One model in memory with the adapters that hang in it."""

    key: Key
    model: PreTrainedModel
    tokenizer: Tokenizer | None
    num_bytes: int
    switch: AdapterSwitch
    generation: int = 0
    """Counts the versions whose weights this module has held."""
    adapters: OrderedDict[Key, HungAdapter] = field(default_factory=OrderedDict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held while the module computes, and while its weights or adapters change."""

    @property
    def held_bytes(self) -> int:
        """Memory of the model and its adapters."""
        return self.num_bytes + sum(adapter.num_bytes for adapter in list(self.adapters.values()))


@dataclass(frozen=True)
class LoadedModel:
    """One version of a model, or of an adapter on its base model."""

    resident: Resident
    """The module in memory, which may come to hold other versions."""
    generation: int
    """Which of them this one is."""
    adapter: str | None
    tokenizer: Tokenizer | None
    """None when the folder has none that can be read without running code."""
    path: Path
    """The folder, links resolved."""

    @property
    def model(self) -> PreTrainedModel:
        """The module, its adapter switched on until somebody asks for another one: for a single thread."""
        with self.scoring() as model:
            return model

    @contextmanager
    def scoring(self) -> Iterator[PreTrainedModel]:
        """The module with its adapter, or none, switched on. Nobody changes it until the block ends.

        Raises:
            CheckpointNotReady: its memory was given to another version since it was loaded.
        """
        resident = self.resident
        with resident.lock:
            names = [adapter.name for adapter in resident.adapters.values()]
            if resident.generation != self.generation or (self.adapter and self.adapter not in names):
                raise CheckpointNotReady(f"the checkpoint {self.path} was replaced in memory, load it again")
            resident.switch.switch(self.adapter)
            yield resident.model
