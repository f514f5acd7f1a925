"""Scores without a model: how alike a reasoning and a prompt, or a prompt's other reasonings, are as text.

These are similarities from 0 to 1, never nats: retrieval metrics can be taken from them, information
cannot. Source: docs/metrics.md section 6.

Legend: R reasonings, P prompts, W terms.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer

from collapsewatch.contracts.scoring import LexicalMethod
from collapsewatch.words import words_of
from collapsewatch_worker.batches.partition import PartitionedTurn
from collapsewatch_worker.scoring.batching import Ints

Floats = npt.NDArray[np.float64]

_LONGEST_TERM = {LexicalMethod.tfidf_prompt: 1, LexicalMethod.group_centroid: 2}
"""Terms are runs of one to this many words. A reasoning seldom quotes two words of a prompt in a row, while
reasonings of one prompt share whole phrases."""
COPIED_WORDS = 3
"""A usual `mask_copied`: words in a row that a reasoning must share with a prompt to count as copied."""


def lexical_scores(
    reasonings: Sequence[str],
    prompts: Sequence[str],
    prompt_of_R: Ints,
    *,
    method: LexicalMethod,
    mask_copied: int | None = None,
) -> Floats:
    """Similarity of each reasoning and each prompt [R, P], 0..1; higher means closer.

    `tfidf_prompt`: cosine of the TF-IDF vectors of the reasoning and of the prompt. `group_centroid`:
    cosine of the reasoning's vector and the mean vector of the prompt's reasonings, where a reasoning
    never counts for its own prompt's mean (leave one out); the prompts' texts are not looked at.

    A reasoning without any term is equally far (0) from every prompt. Under `group_centroid` a reasoning
    that is its prompt's only one has no mean to be compared with: its whole row is NaN, and the caller
    leaves the row out. A prompt without reasonings has similarity 0 to all.

    Args:
        reasonings: texts, length R.
        prompts: texts, length P.
        prompt_of_R: each reasoning's own column.
        method: how to compare.
        mask_copied: when given, every run of at least so many words that stands word for word in any of
            the prompts is first taken out of the reasonings: copying a prompt inflates the similarity
            to it. 1 takes out every word of the prompts, which leaves `tfidf_prompt` nothing to compare.

    Raises:
        ValueError: lengths that do not fit, a column that does not exist, or `mask_copied` below 1.
    """
    own_R = np.asarray(prompt_of_R, dtype=np.int64)
    if len(own_R) != len(reasonings):
        raise ValueError(f"{len(own_R)} own columns for {len(reasonings)} reasonings")
    if own_R.size and not 0 <= int(own_R.min()) <= int(own_R.max()) < len(prompts):
        raise ValueError(f"a reasoning's own column is outside the {len(prompts)} prompts")
    texts = list(reasonings)
    if mask_copied is not None:
        texts = without_copied_runs(texts, prompts, mask_copied)
    if method is LexicalMethod.tfidf_prompt:
        return _prompt_similarity(texts, list(prompts))
    return _centroid_similarity(texts, own_R, len(prompts))


def lexical_texts(turns: Sequence[PartitionedTurn]) -> tuple[list[str], list[str]]:
    """Reasonings and prompts of the turns as texts that can be compared.

    Where any of them is known as token ids only, the ids stand as words for all of them.
    """
    if all(turn.reasoning_text and turn.prompt_text for turn in turns):
        return [turn.reasoning_text for turn in turns], [turn.prompt_text for turn in turns]
    if all(turn.reasoning_token_ids and turn.prompt_token_ids for turn in turns):
        reasonings = [" ".join(map(str, turn.reasoning_token_ids or ())) for turn in turns]
        return reasonings, [" ".join(map(str, turn.prompt_token_ids or ())) for turn in turns]
    # Neither kind is complete; what is missing cannot be told from an empty text.
    return [turn.reasoning_text for turn in turns], [turn.prompt_text for turn in turns]


def without_copied_runs(reasonings: Sequence[str], prompts: Sequence[str], num_words: int) -> list[str]:
    """The reasonings without every run of `num_words` or more words that also stands in some prompt.

    All prompts are looked at, not the own one alone, so that no column is favoured.

    Raises:
        ValueError: `num_words` below 1.
    """
    if num_words < 1:
        raise ValueError(f"a copied run has at least 1 word, got {num_words}")
    runs = {run for prompt in prompts for run in _runs(words_of(prompt), num_words)}
    masked = []
    for reasoning in reasonings:
        words = words_of(reasoning)
        copied = np.zeros(len(words), dtype=bool)
        for start, run in enumerate(_runs(words, num_words)):
            if run in runs:
                copied[start : start + num_words] = True
        masked.append(" ".join(word for word, gone in zip(words, copied, strict=True) if not gone))
    return masked


def _runs(words: list[str], num_words: int) -> list[tuple[str, ...]]:
    return [tuple(words[start : start + num_words]) for start in range(len(words) - num_words + 1)]


def _vectors(texts: list[str], longest_term: int) -> csr_matrix:
    """TF-IDF vectors [len(texts), W] of length 1; all zero for a text without words."""
    words = [words_of(text) for text in texts]
    if not any(words):
        return csr_matrix((len(texts), 1))
    vectorizer = TfidfVectorizer(
        ngram_range=(1, longest_term),
        # Texts come as words already; the default would drop numbers and words of one letter.
        tokenizer=list,
        token_pattern=None,
        lowercase=False,
        # The logarithm keeps a word that is said three times from drowning the others.
        sublinear_tf=True,
    )
    return csr_matrix(vectorizer.fit_transform(words))


def _prompt_similarity(reasonings: list[str], prompts: list[str]) -> Floats:
    vectors = _vectors(reasonings + prompts, _LONGEST_TERM[LexicalMethod.tfidf_prompt])
    similarity = vectors[: len(reasonings)] @ vectors[len(reasonings) :].T
    return np.asarray(similarity.toarray(), dtype=np.float64)


def _centroid_similarity(reasonings: list[str], own_R: Ints, num_prompts: int) -> Floats:
    num_rows = len(reasonings)
    vectors_RW = _vectors(reasonings, _LONGEST_TERM[LexicalMethod.group_centroid])
    member_RP = csr_matrix((np.ones(num_rows), (np.arange(num_rows), own_R)), shape=(num_rows, num_prompts))
    sums_PW = member_RP.T @ vectors_RW
    # A mean points where its sum does, so cosines need the sums alone.
    dots_RP = np.asarray((vectors_RW @ sums_PW.T).toarray(), dtype=np.float64)
    squares_P = np.asarray(sums_PW.multiply(sums_PW).sum(axis=1), dtype=np.float64).ravel()
    squares_R = np.asarray(vectors_RW.multiply(vectors_RW).sum(axis=1), dtype=np.float64).ravel()
    rows = np.arange(num_rows)
    own_dots_R = dots_RP[rows, own_R]
    norms_RP = np.tile(np.sqrt(squares_P), (num_rows, 1))
    # Leave one out: |s − z|² = |s|² − 2 s·z + |z|², and z·(s − z) = s·z − |z|².
    left_out_R = np.maximum(squares_P[own_R] - 2 * own_dots_R + squares_R, 0)
    norms_RP[rows, own_R] = np.sqrt(left_out_R)
    dots_RP[rows, own_R] = own_dots_R - squares_R
    # What is left of a sum by rounding alone is no direction.
    known_RP = norms_RP > 1e-7
    scores_RP: Floats = np.divide(dots_RP, norms_RP, out=np.zeros_like(dots_RP), where=known_RP)
    num_members_P = np.bincount(own_R, minlength=num_prompts)
    scores_RP[num_members_P[own_R] < 2] = np.nan
    np.clip(scores_RP, 0.0, 1.0, out=scores_RP)
    return scores_RP
