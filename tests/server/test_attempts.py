"""Who owns which step: a hand-worked run, and the rule itself beside what is computed from it."""

from collections.abc import Sequence
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from collapsewatch_server.attempts import (
    Attempt,
    Lineages,
    Move,
    Segment,
    changed_from,
    moved,
)

LAST = 12
STEPS = range(LAST + 1)
ATTEMPTS = st.lists(st.none() | st.integers(0, LAST), max_size=6).map(
    lambda firsts: [attempt(pk, first) for pk, first in enumerate(firsts, 1)]
)


def attempt(pk: int, first_step: int | None, last_step: int | None = None) -> Attempt:
    return Attempt(pk, f"a{pk}", float(pk), None, first_step, last_step)


def owner_by_the_rule(attempts: Sequence[Attempt], step: int) -> int | None:
    """The last attempt that reaches back to the step; before the first step of all, who owns that one."""
    firsts = [one.first_step for one in attempts if one.first_step is not None]
    if not firsts:
        return None
    step = max(step, min(firsts))
    return [one.pk for one in attempts if one.first_step is not None and one.first_step <= step][-1]


def owner_in(lineages: Lineages, attempt_pk: int, step: int) -> int | None:
    return lineages.owner(attempt_pk, step) if attempt_pk in lineages else None


def test_a_resumed_run_goes_on_where_its_last_attempt_began() -> None:
    lineages = Lineages([attempt(1, 0, 30), attempt(2, 20, 25), attempt(3, 10, 12)])
    assert lineages.run == (Segment(0, 10, 1), Segment(10, None, 3))
    assert lineages.of(2) == (Segment(0, 20, 1), Segment(20, None, 2))
    assert [lineages.superseded_from(pk) for pk in (1, 2, 3)] == [10, 20, None]
    assert [one.pk for one in lineages.building_on(1, 5)] == [2, 3]
    assert [one.pk for one in lineages.building_on(1, 15)] == [2]
    assert list(lineages.before(3, 11)) == [Segment(10, 11, 3), Segment(0, 10, 1)]
    assert lineages.last_step == 12
    assert lineages.with_attempt(attempt(3, 10, None)).last_step == 9


def test_the_order_is_that_of_the_starts_whatever_the_order_of_arrival() -> None:
    for order in permutations([attempt(3, 10), attempt(1, 0), attempt(2, 20)]):
        assert [one.pk for one in Lineages(order).attempts] == [1, 2, 3]
    twins = [Attempt(1, "b", 5.0, None, 0), Attempt(2, "a", 5.0, None, 0)]
    assert Lineages(twins).run == (Segment(0, None, 1),)


def test_an_attempt_without_steps_owns_none() -> None:
    assert Lineages([]).run == Lineages([attempt(1, None)]).run == ()
    assert Lineages([]).last_step is None
    assert not Lineages([attempt(1, None)]).is_superseded(1, 3)
    assert Lineages([attempt(1, 4), attempt(2, None)]).run == (Segment(0, None, 1),)


def test_a_step_before_the_declared_first_one_does_not_supersede() -> None:
    first, second = attempt(1, 0), Attempt(2, "a2", 2.0, 20, 20)
    lineages = Lineages([first, second.with_steps(3, 25)])
    assert lineages.named("a2") == second._replace(last_step=25)
    assert not lineages.is_superseded(1, 3)
    assert lineages.is_superseded(2, 3)


def test_steps_that_change_hands_are_named_with_both_owners() -> None:
    before = Lineages([attempt(1, 0), attempt(2, 20)])
    after = before.with_attempt(attempt(3, 10))
    assert moved(before, after) == [Move(10, 20, 1, 3), Move(20, None, 2, 3)]
    assert changed_from(before, after) == {3: 0}
    lower = after.with_attempt(attempt(2, 5))
    assert moved(after, lower) == [Move(5, 10, 1, 2)]
    assert changed_from(after, lower) == {2: 5, 3: 5}
    assert changed_from(lower, lower) == {}


@given(st.permutations([("declared", 8.0, None), ("declared", 7.0, 5), ("steps", 9, 9), ("steps", 3, 4)]))
def test_what_is_known_of_an_attempt_does_not_depend_on_the_order(
    events: list[tuple[str, float, int | None]],
) -> None:
    known = Attempt(1, "a", 10.0)
    for kind, first, second in events:
        if kind == "declared":
            known = known.as_declared(first, second)
        else:
            assert second is not None
            known = known.with_steps(int(first), second)
    assert known == Attempt(1, "a", 7.0, 5, 5, 9)


@given(ATTEMPTS)
def test_owners_follow_the_rule_in_every_lineage(attempts: list[Attempt]) -> None:
    lineages = Lineages(attempts)
    for position, one in enumerate(attempts):
        for step in STEPS:
            expected = owner_by_the_rule(attempts[: position + 1], step)
            assert lineages.owner(one.pk, step) == expected
    for one in attempts:
        for step in STEPS:
            owner = owner_by_the_rule(attempts, step)
            assert lineages.is_superseded(one.pk, step) == (owner not in (None, one.pk))


@given(ATTEMPTS)
def test_lineages_share_their_past(attempts: list[Attempt]) -> None:
    """So a fold is run once for every step of an attempt, and those who build on it go on from there."""
    lineages = Lineages(attempts)
    for later in attempts:
        for step in STEPS:
            owner = lineages.owner(later.pk, step)
            if owner is not None:
                assert list(lineages.before(later.pk, step)) == list(lineages.before(owner, step))


@given(ATTEMPTS)
def test_those_who_build_on_a_step_are_those_whose_lineage_holds_it(attempts: list[Attempt]) -> None:
    lineages = Lineages(attempts)
    for position, one in enumerate(attempts):
        for step in range(one.first_step if one.first_step is not None else LAST + 1, LAST + 1):
            expected = [
                later.pk
                for later in attempts[position + 1 :]
                if later.first_step is not None and lineages.owner(later.pk, step) == one.pk
            ]
            assert [later.pk for later in lineages.building_on(one.pk, step)] == expected


@given(ATTEMPTS, st.integers(1, 8), st.none() | st.integers(0, LAST))
def test_changes_are_all_that_changed(attempts: list[Attempt], pk: int, first: int | None) -> None:
    before = Lineages(attempts)
    after = before.with_attempt(attempt(pk, first))
    was = {step: owner_by_the_rule(before.attempts, step) for step in STEPS}
    becomes = {step: owner_by_the_rule(after.attempts, step) for step in STEPS}
    found = {
        step: (move.before_pk, move.after_pk)
        for move in moved(before, after)
        for step in STEPS
        if move.from_step <= step and (move.until_step is None or step < move.until_step)
    }
    assert found == {step: (was[step], becomes[step]) for step in STEPS if was[step] != becomes[step]}
    differing = {
        one.pk: [step for step in STEPS if owner_in(before, one.pk, step) != after.owner(one.pk, step)]
        for one in after.attempts
    }
    assert changed_from(before, after) == {pk: min(steps) for pk, steps in differing.items() if steps}
