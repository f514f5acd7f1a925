"""Reads a checkpoint's tokenizer without running any code of the checkpoint."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers as fast
from transformers import AutoTokenizer

from collapsewatch_worker.batches.partition import Tokenizer
from collapsewatch_worker.errors import JobError
from collapsewatch_worker.models.adapter_config import base_of_adapter
from collapsewatch_worker.models.folders import allowed_folder, files_within

log = logging.getLogger(__name__)

CLASSIC_FILES = ("tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model")
"""Vocabularies of tokenizers that come without `tokenizer.json`."""


class SerialisedTokenizer:
    """A `tokenizer.json`, taken as it is: no truncation, no padding, special tokens kept as text."""

    def __init__(self, file: Path) -> None:
        self._tokenizer = fast.Tokenizer.from_file(str(file))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Token ids of a text."""
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens included."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)


class ClassicTokenizer:
    """A tokenizer of the transformers library that has no `tokenizer.json`."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Token ids of a text."""
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens included, spaces as they are."""
        return str(
            self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )


def tokenizer_below(roots: Sequence[Path], checkpoint: str) -> Tokenizer | None:
    """The tokenizer of a checkpoint that is not loaded, an adapter's own or else that of its base model.

    None when it has none or is not there for us.
    """
    roots = [root.expanduser().resolve() for root in roots]
    try:
        folder = allowed_folder(checkpoint, roots)
        files_within(folder, roots)
        tokenizer = load_tokenizer(folder)
        base = base_of_adapter(folder) if tokenizer is None else None
        if base is None:
            return tokenizer
        folder = allowed_folder(base, roots)
        files_within(folder, roots)
    except JobError as error:
        log.info("the checkpoint's tokenizer is not here", extra={"error": str(error)})
        return None
    return load_tokenizer(folder)


def load_tokenizer(folder: Path) -> Tokenizer | None:
    """The folder's tokenizer; None when it has none, or none that can be read.

    Batches that bring their token ids need no tokenizer, so an unreadable one is only a warning.
    """
    serialised = folder / "tokenizer.json"
    try:
        if serialised.is_file():
            return SerialisedTokenizer(serialised)
        if any((folder / name).is_file() for name in CLASSIC_FILES):
            classic = AutoTokenizer.from_pretrained(  # nosec B615
                folder, trust_remote_code=False, local_files_only=True
            )
            return ClassicTokenizer(classic)
    # The tokenizers library raises bare Exceptions, so nothing narrower can be caught.
    except Exception:
        log.warning("the tokenizer cannot be read", extra={"checkpoint": str(folder)}, exc_info=True)
    return None
