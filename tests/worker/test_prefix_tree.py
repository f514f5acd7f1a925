"""Cutting token sequences where they part."""

from hypothesis import given
from hypothesis import strategies as st

from collapsewatch_worker.scoring.prefix_tree import Segment, Tokens, shared_segments

SEQUENCES = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9).map(tuple), min_size=1, unique=True)
"""Three token ids, so that prefixes are shared at many lengths and some sequences are prefixes of others."""


def rebuilt(segments: list[Segment]) -> dict[int, Tokens]:
    """The sequences by index, read along each one's path."""
    sequences: dict[int, Tokens] = {}
    path: list[Tokens] = []
    for segment in segments:
        del path[segment.depth :]
        assert len(path) == segment.depth
        assert sum(map(len, path)) == segment.start
        path.append(segment.tokens)
        if segment.ends is not None:
            assert segment.ends not in sequences
            sequences[segment.ends] = tuple(token for tokens in path for token in tokens)
    return sequences


@given(SEQUENCES, st.integers(1, 12))
def test_the_paths_spell_the_sequences(sequences: list[Tokens], min_saved: int) -> None:
    segments = shared_segments(sequences, min_saved=min_saved)

    assert rebuilt(segments) == dict(enumerate(sequences))
    assert all(segment.tokens for segment in segments)


@given(SEQUENCES)
def test_every_distinct_prefix_is_read_once(sequences: list[Tokens]) -> None:
    segments = shared_segments(sequences, min_saved=1)

    prefixes = {sequence[: end + 1] for sequence in sequences for end in range(len(sequence))}
    assert sum(len(segment.tokens) for segment in segments) == len(prefixes)


@given(SEQUENCES, st.integers(1, 12))
def test_every_cut_saves_what_it_must(sequences: list[Tokens], min_saved: int) -> None:
    segments = shared_segments(sequences, min_saved=min_saved)

    for position, segment in enumerate(segments):
        below = next(
            (later for later in range(position + 1, len(segments)) if segments[later].depth <= segment.depth),
            len(segments),
        )
        ending = sum(inner.ends is not None for inner in segments[position:below])
        assert ending == 1 or len(segment.tokens) * (ending - 1) >= min_saved


def test_a_system_prompt_is_a_segment_and_a_few_common_tokens_are_not() -> None:
    system, few = tuple(range(50)), (60, 61)
    prompts = [(*system, 1, 2), (*system, 3), (*few, 4), (*few, 5)]

    assert shared_segments(prompts, min_saved=32) == [
        Segment(0, 0, system, ends=None),
        Segment(1, 50, (1, 2), ends=0),
        Segment(1, 50, (3,), ends=1),
        Segment(0, 0, (60, 61, 4), ends=2),
        Segment(0, 0, (60, 61, 5), ends=3),
    ]


def test_the_turns_of_a_long_trajectory_make_a_chain() -> None:
    turns = [tuple(range(40 * (turn + 1))) for turn in range(200)]

    segments = shared_segments(turns, min_saved=32)

    assert [segment.depth for segment in segments] == list(range(200))
    assert [segment.ends for segment in segments] == list(range(200))
    assert sum(len(segment.tokens) for segment in segments) == 8_000


def test_no_sequences_make_no_segments() -> None:
    assert shared_segments([], min_saved=1) == []
