"""A trainer's tokenizer with the text kept exactly as it is."""

from collections.abc import Sequence
from typing import Any


class ExactTokenizer:
    """A tokenizer of the transformers library; special tokens and spaces stay in the text."""

    def __init__(self, tokenizer: Any) -> None:
        # A processor of a model with images holds the tokenizer of its text.
        self._tokenizer = getattr(tokenizer, "tokenizer", tokenizer)

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Token ids of a text."""
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids."""
        return str(
            self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )


def exact_tokenizer(tokenizer: Any) -> ExactTokenizer | None:
    """The tokenizer in the form that cutting needs; None for none."""
    return None if tokenizer is None else ExactTokenizer(tokenizer)
