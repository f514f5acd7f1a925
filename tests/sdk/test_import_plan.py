"""What an import is called, who scores it, and when two imports are the same run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collapsewatch.contracts.rollouts import ReasoningTags
from collapsewatch.importers.plan import (
    Plan,
    ScorerChoice,
    absolute_model,
    lexical_method,
    model_root,
    name_of,
    run_start_of,
    scorer_of,
    warning_about_tags,
)
from collapsewatch.importers.sending import BatchOptions
from collapsewatch.importers.steps import ImportFailedError, Place, Step, rollout_of


def step_of(groups: str = "aabb", response: str = "z </think> a") -> Step:
    turns = [{"prompt": "p <think>", "response": response}]
    return Step(0, [rollout_of(group_id=group, turns=turns) for group in groups], Place(Path("f")))


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "run.jsonl").write_text("")
    return Plan(tmp_path / "run.jsonl", "recorded", "default", None)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("flat_nf_s1.rollouts.jsonl.gz", "flat_nf_s1"),
        ("a.b.jsonl.zst", "a.b"),
        ("Mine.PARQUET", "Mine"),
        ("rollouts.jsonl", "rollouts"),
        (".jsonl", ".jsonl"),
    ],
)
def test_a_run_is_named_after_its_file(tmp_path: Path, file: str, name: str) -> None:
    (tmp_path / file).write_text("")
    assert name_of(tmp_path / file) == name


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("grpo-7b", "grpo-7b"),
        ("grpo-7b/completions", "grpo-7b"),
        ("exp/rollouts", "exp"),
        ("exp.v2", "exp.v2"),
    ],
)
def test_a_folder_that_every_trainer_calls_so_gives_way_to_the_one_above(
    tmp_path: Path, folder: str, name: str
) -> None:
    (tmp_path / folder).mkdir(parents=True)
    assert name_of(tmp_path / folder) == name


def test_the_same_import_is_the_same_run(plan: Plan) -> None:
    start = run_start_of(plan, step_of())
    assert run_start_of(plan, step_of("ccdd")).run_id == start.run_id
    assert start.name == "run"
    assert start.config["imported_from"] == str(plan.path.resolve())
    assert start.attempt is not None
    assert start.attempt == run_start_of(plan, step_of()).attempt


@pytest.mark.parametrize(
    "change",
    [
        {"project": "other"},
        {"name": "other"},
        {"format": "columns"},
        {"scorer": ScorerChoice(model="/m")},
        {"scorer": ScorerChoice(num_samples=64)},
        {"options": BatchOptions(ReasoningTags(whole_response=True))},
        {"options": BatchOptions(temperature=0.7)},
        {"reading": {"mapping": {"prompt": "q"}}},
    ],
)
def test_what_changes_the_scores_makes_another_run(plan: Plan, change: dict[str, Any]) -> None:
    changed = replace(plan, **change)
    assert run_start_of(changed, step_of()).run_id != run_start_of(plan, step_of()).run_id


def test_a_file_of_the_same_name_elsewhere_is_another_run(plan: Plan) -> None:
    other = plan.path.parent / "b" / "run.jsonl"
    other.parent.mkdir()
    other.write_text("")
    ids = {run_start_of(replace(plan, path=path), step_of()).run_id for path in (plan.path, other)}
    assert len(ids) == 2


def test_words_are_compared_within_groups_where_there_are_groups() -> None:
    assert lexical_method(step_of("aab")) == "group_centroid"
    assert lexical_method(step_of("abc")) == "tfidf_prompt"
    assert scorer_of(ScorerChoice(), step_of("abc")).lexical_method.value == "tfidf_prompt"
    assert (
        scorer_of(ScorerChoice(lexical="group_centroid"), step_of("abc")).lexical_method.value
        == "group_centroid"
    )


@pytest.mark.parametrize(
    ("choice", "kind"),
    [
        (ScorerChoice(), "lexical"),
        (ScorerChoice(model="/m/base"), "reference"),
        (ScorerChoice(model="/m/step-{step}"), "policy"),
        (ScorerChoice(model="/m/{policy_version}"), "policy"),
        (ScorerChoice(model="/m/base", kind="policy"), "policy"),
    ],
)
def test_a_model_whose_name_changes_is_the_policy(choice: ScorerChoice, kind: str) -> None:
    scorer = scorer_of(choice, step_of())
    assert scorer.kind.value == kind
    assert scorer.checkpoint == choice.model


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (ScorerChoice(model="/m", kind="lexical"), "takes no --model"),
        (ScorerChoice(kind="policy"), "needs --model"),
        (ScorerChoice(kind="best"), "kind"),
        (ScorerChoice(lexical="bleu"), "lexical_method"),
        (ScorerChoice(num_samples=1), "num_samples"),
    ],
)
def test_a_scorer_that_cannot_be_is_told(plan: Plan, choice: ScorerChoice, told: str) -> None:
    if choice.kind == "best":
        choice = replace(choice, model="/m")
    with pytest.raises(ImportFailedError, match=told):
        run_start_of(replace(plan, scorer=choice), step_of())


def test_a_model_of_this_machine_is_told_by_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ckpt").mkdir()
    monkeypatch.chdir(tmp_path)
    assert absolute_model("ckpt") == str(tmp_path / "ckpt")
    assert absolute_model("ckpt/step-{step}") == str(tmp_path / "ckpt/step-{step}")
    assert absolute_model("somewhere/else") == "somewhere/else"
    assert absolute_model(None) is None
    assert model_root(str(tmp_path / "ckpt")) == tmp_path
    assert model_root(str(tmp_path / "ckpt/step-{step}/actor")) == tmp_path / "ckpt"
    assert model_root(str(tmp_path / "ckpt/{step}")) == tmp_path / "ckpt"


def test_responses_without_any_closing_tag_are_told_before_all_is_imported() -> None:
    bare = step_of(response="no tags at all")
    told = warning_about_tags(bare, BatchOptions())
    assert told is not None
    assert "--whole-response" in told
    assert warning_about_tags(step_of(), BatchOptions()) is None
    assert warning_about_tags(bare, BatchOptions(ReasoningTags(whole_response=True))) is None
    assert (
        warning_about_tags(step_of(response="[[x]]"), BatchOptions(ReasoningTags(open="[[", close="]]")))
        is None
    )
