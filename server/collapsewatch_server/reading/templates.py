"""Answers what the reasonings of a step share, and how common each phrase is over the run."""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from collapsewatch.blobs import BlobStore
from collapsewatch_server.db import Database
from collapsewatch_server.errors import StepNotFound, TextRemoved, wrong
from collapsewatch_server.reading.phrase_shares import (
    coarse_first,
    distinct,
    first_responses,
    num_with,
    phrase_words,
)
from collapsewatch_server.reading.rollout_views import PhraseShare, TemplateShares
from collapsewatch_server.reading.rollouts import OneAtATime, RunOfRollouts
from collapsewatch_server.reading.stored_batches import MAX_BYTES, StepSource, StoredBatches
from collapsewatch_server.repositories import rollouts
from collapsewatch_server.repositories.rollouts import Told

MAX_STEPS = 40
_READ_SECONDS = 1.5
_MAX_REMEMBERED = 20_000
_NUM = ""
"""Stands for no phrase: how many responses were read."""


@dataclass(frozen=True)
class _Place:
    """A step, and where its rollouts lie."""

    step: int
    source: StepSource


@dataclass(frozen=True)
class _Plan:
    """What has to be counted where."""

    places: list[_Place]
    shown: _Place
    told: Told | None
    """What was found out about the shown step."""


class TemplateReading:
    """Counts phrases in stored batches, remembers the counts, and changes nothing."""

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        *,
        max_bytes: int = MAX_BYTES,
        read_seconds: float = _READ_SECONDS,
    ) -> None:
        """The service.

        Args:
            read_seconds: how long one call reads; the next one goes on from there.
        """
        self._database = database
        self._stored = StoredBatches(blobs, max_bytes=max_bytes)
        self._read_seconds = read_seconds
        self._turn = OneAtATime()
        # Batches are named by their content, so a count once made is true for ever.
        self._counts: OrderedDict[tuple[tuple[str, ...], str], int | None] = OrderedDict()

    def shares(
        self, run_id: str, step: int | None, attempt_id: str | None, phrases: Sequence[str]
    ) -> TemplateShares:
        """The template of the step, or of the last step, and of each phrase the share over the steps.

        Args:
            phrases: others to be counted as well.

        Raises:
            StepNotFound: nothing arrived for the step, or at all.
            TooBusy: others are counting.
        """
        with self._database.read_session() as session:
            plan = _plan(session, run_id, step, attempt_id)
        evidence: dict[str, Any] = (plan.told and plan.told.template_evidence) or {}
        known = {phrase_words(one["text"]): one for one in evidence.get("phrases", [])}
        own = [words for words in dict.fromkeys(map(phrase_words, phrases)) if words]
        counted = own + [words for words in distinct(known) if words not in own]
        is_complete = self._count(plan, counted) if counted else True
        found = [_share(words, known.get(words), self._shares(plan.places, words)) for words in counted]
        at = plan.places.index(plan.shown)
        found.sort(key=lambda one: (one.text not in own, -(one.shares[at] or 0.0), -one.num_words))
        return TemplateShares(
            step=plan.shown.step,
            attempt_id=plan.shown.source.moment.attempt_id,
            num_prompts=evidence.get("num_prompts"),
            min_prompts=evidence.get("min_prompts"),
            min_words=evidence.get("min_words"),
            phrases=found,
            steps=[place.step for place in plan.places],
            num_rollouts=[self._counts.get((_key(place), _NUM)) for place in plan.places],
            is_complete=is_complete,
            reason=_why_none(plan),
            text_removed=plan.shown.source.is_removed,
        )

    def _count(self, plan: _Plan, phrases: Sequence[str]) -> bool:
        """Counts what is not known yet, at the shown step before all others; whether time sufficed."""
        by_step = {place.step: place for place in plan.places}
        first = plan.shown.step
        with self._turn.turn():
            until = time.monotonic() + self._read_seconds
            for step in [first, *coarse_first(list(by_step))]:
                place = by_step[step]
                missing = [one for one in (_NUM, *phrases) if (_key(place), one) not in self._counts]
                if not missing:
                    continue
                if step != first and time.monotonic() >= until:
                    return False
                self._remember(place, missing)
        return True

    def _remember(self, place: _Place, phrases: Sequence[str]) -> None:
        responses = first_responses(list(self._stored.rollouts(place.source)))
        for phrase in phrases:
            count = num_with(responses, phrase) if phrase != _NUM else len(responses)
            self._counts[_key(place), phrase] = None if place.source.faults else count
        while len(self._counts) > _MAX_REMEMBERED:
            self._counts.popitem(last=False)

    def _shares(self, places: Sequence[_Place], phrase: str) -> list[float | None]:
        found: list[float | None] = []
        for place in places:
            num, count = (self._counts.get((_key(place), one)) for one in (_NUM, phrase))
            found.append(None if not num or count is None else count / num)
        return found


def _plan(session: Session, run_id: str, step: int | None, attempt_id: str | None) -> _Plan:
    run = RunOfRollouts(session, run_id, attempt_id)
    if step is None:
        step = rollouts.last_step(session, run.run_pk, run.lineage)
    spread = rollouts.spread_steps(session, run.run_pk, run.lineage, MAX_STEPS - 1)
    wanted = sorted({*spread, *([] if step is None else [step])})
    parts_of = rollouts.of_steps(session, run.run_pk, run.lineage, wanted)
    if step is None or step not in parts_of:
        raise StepNotFound("there are no rollouts", [wrong("step", "no rollouts", step)])
    places = {one: _Place(one, run.source(one, parts_of[one])) for one in wanted if one in parts_of}
    return _Plan(list(places.values()), places[step], rollouts.told_of(session, parts_of[step]))


def _key(place: _Place) -> tuple[str, ...]:
    return tuple(place.source.keys)


def _share(words: str, phrase: dict[str, Any] | None, shares: list[float | None]) -> PhraseShare:
    return PhraseShare(
        text=words,
        num_words=len(words.split(" ")),
        num_prompts=None if phrase is None else phrase["num_prompts"],
        shares=shares,
    )


def _why_none(plan: _Plan) -> str | None:
    told = plan.told
    if plan.shown.source.is_removed:
        return TextRemoved(plan.shown.step).message
    if told is None:
        return "the step is not scored yet, and its reasonings were not compared"
    if told.template_evidence is None:
        return str(told.absent.get("compression_distance_ratio", "the reasonings were not compared"))
    if not told.template_evidence["phrases"]:
        evidence = told.template_evidence
        return (
            f"no phrase of {evidence['min_words']} words or more is shared by reasonings of "
            f"{evidence['min_prompts']} prompts"
        )
    return None
