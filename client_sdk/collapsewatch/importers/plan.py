"""What an import is: its name, who scores it, and the ids that make the same import again the same run."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from collapsewatch.arguments import scorer_config, validated
from collapsewatch.contracts.runs import AttemptStart, RunStart
from collapsewatch.contracts.scoring import LexicalMethod, ScorerConfig
from collapsewatch.errors import InvalidInputError
from collapsewatch.importers.files import COMPRESSED
from collapsewatch.importers.sending import BatchOptions
from collapsewatch.importers.steps import ImportFailedError, Step

_SUFFIXES = (".jsonl", ".ndjson", ".parquet", ".rollouts")
_NOBODYS = frozenset(
    {"completions", "rollouts", "rollout_data", "rollout", "train", "eval", "dumped_evals", "logs", "outputs"}
)
"""Folders that trainers call so whatever the run; the name of the one above says more."""
_MAX_NAME = 200


@dataclass(frozen=True)
class ScorerChoice:
    """What the user said about who scores."""

    model: str | None = None
    kind: str | None = None
    lexical: str | None = None
    num_samples: int | None = None
    every_steps: int | None = None


@dataclass(frozen=True)
class Plan:
    """One import, before anything of it is read."""

    path: Path
    format: str
    project: str
    name: str | None
    scorer: ScorerChoice = field(default_factory=ScorerChoice)
    options: BatchOptions = field(default_factory=BatchOptions)
    reading: Mapping[str, Any] = field(default_factory=dict)
    """What else decides on what is read: mapping, step, part."""


def run_start_of(plan: Plan, first: Step) -> RunStart:
    """The record that opens the run. The same file, read and scored in the same way, is the same run.

    Raises:
        ImportFailedError: a name, a project or a scorer that cannot be used.
    """
    name = plan.name or name_of(plan.path)
    try:
        scorer = scorer_of(plan.scorer, first)
        identity = [
            *(plan.project, name, str(plan.path.resolve()), plan.format),
            scorer.model_dump(mode="json"),
            plan.options.reasoning_tags.model_dump(mode="json"),
            *(plan.options.reward_range, plan.options.temperature, sorted(plan.reading.items())),
        ]
        digest = blake2b(json.dumps(identity).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()
        began_at = plan.path.stat().st_mtime
        return validated(
            RunStart,
            run_id=f"import-{digest}",
            project=plan.project,
            name=name,
            config={"imported_from": str(plan.path.resolve()), "format": plan.format, **plan.reading},
            tags=["imported"],
            scorer=scorer,
            attempt=validated(AttemptStart, attempt_id=f"import-{digest}", started_at=max(0.0, began_at)),
            writer_id=f"import-{digest}",
        )
    except InvalidInputError as error:
        raise ImportFailedError(str(error)) from error


def name_of(path: Path) -> str:
    """The run's name: the file's without its suffixes; the folder's, or that of the one above."""
    path = path.resolve()
    name = path.name
    if path.is_file():
        for suffix in (*COMPRESSED, *_SUFFIXES):
            name = name[: -len(suffix)] if name.lower().endswith(suffix) and len(name) > len(suffix) else name
    elif name.lower() in _NOBODYS and path.parent.name:
        name = path.parent.name
    return (name.strip() or "imported")[:_MAX_NAME]


def scorer_of(choice: ScorerChoice, first: Step) -> ScorerConfig:
    """Who scores: words without a model; with one, the policy if its name changes, or a reference.

    Raises:
        InvalidInputError: fields that do not go together.
    """
    rest: dict[str, Any] = {"num_samples": choice.num_samples, "every_steps": choice.every_steps}
    kind = choice.kind
    if kind is None and choice.model is None:
        kind = "lexical"
    elif kind is None:
        changes = "{step}" in str(choice.model) or "{policy_version}" in str(choice.model)
        kind = "policy" if changes else "reference"
    if kind == "lexical" and choice.model is not None:
        raise InvalidInputError("a `lexical` scorer takes no --model")
    if kind != "lexical" and choice.model is None:
        raise InvalidInputError(f"a `{kind}` scorer needs --model, the checkpoint that it scores with")
    if kind == "lexical":
        return scorer_config("lexical", lexical_method=choice.lexical or lexical_method(first), **rest)
    return scorer_config({"kind": kind, "checkpoint": choice.model}, **rest)


def lexical_method(first: Step) -> str:
    """The leave-one-out centroid of a prompt's other reasonings, the better proxy; needs two of a prompt."""
    sizes = Counter(rollout.group_id for rollout in first.rollouts)
    has_pairs = any(size > 1 for size in sizes.values())
    return (LexicalMethod.group_centroid if has_pairs else LexicalMethod.tfidf_prompt).value


def absolute_model(model: str | None) -> str | None:
    """The checkpoint as the worker is told it: a folder of this machine by its whole path, else as it is."""
    if model is None:
        return None
    fixed, brace, _ = model.partition("{")
    folder = Path(fixed).expanduser()
    is_local = folder.parent.is_dir() if brace and not fixed.endswith("/") else folder.is_dir()
    return str(Path(model).expanduser().absolute()) if is_local else model


def model_root(model: str) -> Path:
    """The folder below which every checkpoint of the pattern lies."""
    fixed, brace, _ = model.partition("{")
    return Path(fixed).parent if not (brace and fixed.endswith("/")) else Path(fixed)


def warning_about_tags(first: Step, options: BatchOptions) -> str | None:
    """What to say when no response of the first step has a reasoning that could be found."""
    tags = options.reasoning_tags
    if tags.whole_response or tags.pattern is not None:
        return None
    turns = [rollout.turns[0] for rollout in first.rollouts]
    texts = [turn for turn in turns if turn.reasoning is not None or tags.close in (turn.response or "")]
    if texts or all(turn.response is None for turn in turns):
        return None
    return (
        f"no response of step {first.number} has a {tags.close}, so no reasoning can be told from it: name "
        "the tags by --tags OPEN CLOSE, or say --whole-response"
    )
