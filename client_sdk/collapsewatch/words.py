"""How a text is cut into words, for all who compare what models wrote.

A phrase is its words in lower case, joined by spaces. Whoever looks for phrases in a text cuts it the same
way, so that what was found by one is found again by the other.

Source: docs/metrics.md section 6.
"""

import re

_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+|[^\w\s]")
"""A word of one letter or more, a number, one sign, or one character of a script written without spaces.
Signs count: a grid drawn as text consists of them."""
_MARKUP = re.compile(r"<[/|]?[a-z_][\w ]{0,40}[/|]?>")
"""Tags and special tokens, such as `<think>` and `<|im_end|>`: the template's, not the prompt's."""


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, tags and special tokens left out."""
    return _WORD.findall(_MARKUP.sub(" ", text.lower()))
