"""verl: `trainer.logger=["console","collapsewatch"]`, and each step's rollouts.

verl loads this module by itself (entry point `verl.plugins`). It adds a logger named `collapsewatch`;
without that name in `trainer.logger` nothing else happens. Rollouts are taken where verl has them to be
written, so they need `trainer.rollout_data_dir`.

Source: verl 0.9.1, `verl/__init__.py`, `verl/utils/tracking.py`, `verl/trainer/ppo/ray_trainer.py` (v0) and
`verl/trainer/ppo/v1/trainer_base.py` (v1).
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import wraps
from typing import Any

from collapsewatch.boundary import Boundary, is_strict
from collapsewatch.errors import CollapsewatchError
from collapsewatch.opening import init
from collapsewatch.training_run import Run

BACKEND = "collapsewatch"
_OPTIONS = ("tags", "scorer", "reward_range", "reasoning_tags", "run_id", "mode", "url")
_UID = re.compile(r"(?P<sample>.+)_(?P<rollout>\d+)_(?P<output>\d+)")
_V0, _V1 = "verl.trainer.ppo.ray_trainer", "verl.trainer.ppo.v1.trainer_base"


class CollapseWatchLogger:
    """What verl's `Tracking` calls. The newest one is told of the rollouts."""

    newest: "CollapseWatchLogger | None" = None

    def __init__(self, project: str, experiment: str, config: Any = None) -> None:
        """Opens a run.

        Args:
            config: verl's; its section `collapsewatch`, when it has one, holds options of `init`, and
                `reward_range` and `reasoning_tags`.
        """
        plain = _plain(config)
        section = plain.get("collapsewatch")
        options = {name: value for name, value in (section or {}).items() if name in _OPTIONS}
        self.head = {
            name: options.pop(name) for name in ("reward_range", "reasoning_tags") if name in options
        }
        self.boundary = Boundary(strict=is_strict())
        self.run: Run = init(project, experiment, config=plain, **options)
        rollout: Any = (plain.get("actor_rollout_ref") or {}).get("rollout") or {}
        if rollout.get("temperature"):
            self.head["temperature"] = float(rollout["temperature"])
        CollapseWatchLogger.newest = self

    def log(self, data: Mapping[str, Any], step: int) -> None:
        """Hands over the numbers of one step."""
        self.run.log({name: value for name, value in data.items() if _is_number(value)}, step=step)

    def finish(self) -> None:
        """Finishes the run."""
        self.run.finish()
        if CollapseWatchLogger.newest is self:
            CollapseWatchLogger.newest = None

    def log_batch(self, trainer: Any, batch: Any, extra: Mapping[str, Any]) -> None:
        """Hands over the rollouts of v0, a `DataProto`, with their token ids."""
        with self.boundary.guard("rollouts of verl"):
            rows = list(_rows_of_batch(trainer, batch, extra))
            self.run.log_rollouts(trainer.global_steps, rows, policy_version=_version(trainer), **self.head)

    def log_texts(self, trainer: Any, columns: Mapping[str, Any]) -> None:
        """Hands over the rollouts of v1, decoded."""
        with self.boundary.guard("rollouts of verl"):
            rows = _rows_of_texts(columns)
            self.run.log_rollouts(trainer.global_steps, rows, policy_version=_version(trainer), **self.head)


def register() -> None:
    """Adds the logger to verl; again changes nothing."""
    from verl.utils import tracking

    kind: Any = tracking.Tracking
    if BACKEND in kind.supported_backend:
        return
    kind.supported_backend.append(BACKEND)
    start, finish = kind.__init__, kind.finish

    @wraps(start)
    def started(
        self: Any,
        project_name: str,
        experiment_name: str,
        default_backend: Any = "console",
        config: Any = None,
    ) -> None:
        start(self, project_name, experiment_name, default_backend, config)
        if BACKEND in ([default_backend] if isinstance(default_backend, str) else default_backend):
            self.logger[BACKEND] = CollapseWatchLogger(project_name, experiment_name, config)
            # Not before: the trainers take long to import, and here one of them has been.
            hook_trainers()

    @wraps(finish)
    def finished(self: Any, exit_code: int = 0) -> None:
        ours = getattr(self, "logger", {}).get(BACKEND)
        if ours is not None and not getattr(self, "_finished", False):
            ours.finish()
        finish(self, exit_code)

    kind.__init__, kind.finish = started, finished


def hook_trainers() -> None:
    """Has the trainers that are imported tell of their rollouts; again changes nothing."""
    v0 = getattr(sys.modules.get(_V0), "RayPPOTrainer", None)
    if v0 is not None:
        _hook(v0, "_log_rollout_data", _told_batch)
    for kind in _trainers_of_v1():
        _hook(kind, "_dump_generations", _told_texts)


def _trainers_of_v1() -> list[Any]:
    module = sys.modules.get(_V1)
    return [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == _V1 and "_dump_generations" in vars(kind)
    ] if module is not None else []  # fmt: skip


def _hook(kind: Any, name: str, tell: Any) -> None:
    plain = vars(kind).get(name)
    if plain is None or hasattr(plain, "_collapsewatch"):
        return

    @wraps(plain)
    def told(self: Any, *args: Any, **options: Any) -> Any:
        logger = CollapseWatchLogger.newest
        if logger is not None:
            tell(logger, self, *args, **options)
        return plain(self, *args, **options)

    told._collapsewatch = True  # type: ignore[attr-defined]
    setattr(kind, name, told)


def _told_batch(
    logger: CollapseWatchLogger,
    trainer: Any,
    batch: Any,
    reward_extra_infos_dict: Mapping[str, Any] | None = None,
    *_: Any,
    **__: Any,
) -> None:
    logger.log_batch(trainer, batch, reward_extra_infos_dict or {})


def _told_texts(logger: CollapseWatchLogger, trainer: Any, *args: Any, **columns: Any) -> None:
    names = ("inputs", "outputs", "gts", "scores", "reward_extra_infos_dict", "dump_path")
    given = {**dict(zip(names, args, strict=False)), **columns}
    # Validation is written by the same method, to another folder.
    if given.get("dump_path") == trainer.config.trainer.get("rollout_data_dir", None):
        logger.log_texts(trainer, given)


def _version(trainer: Any) -> str:
    """The weights that wrote the step's rollouts: those after the step before, as verl names its folders."""
    return f"global_step_{trainer.global_steps - 1}"


def _rows_of_batch(trainer: Any, batch: Any, extra: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    tensors, others = batch.batch, batch.non_tensor_batch
    prompts, responses = tensors["prompts"], tensors["responses"]
    num_prompt = prompts.shape[1]
    mask = tensors["attention_mask"].bool()
    scores = tensors["token_level_scores"].sum(-1).tolist()
    log_probs = tensors["rollout_log_probs"] if "rollout_log_probs" in tensors.keys() else None  # noqa: SIM118
    uids = others.get("uid")
    accuracies = extra.get("acc")
    for row in range(len(responses)):
        prompt = prompts[row][mask[row, :num_prompt]].tolist()
        seen = mask[row, num_prompt:]
        response = responses[row][seen].tolist()
        turn = {
            "prompt": trainer.tokenizer.decode(prompt),
            "prompt_token_ids": prompt,
            "response": trainer.tokenizer.decode(response, skip_special_tokens=True),
            "response_token_ids": response,
        }
        if log_probs is not None:
            turn["response_log_probs"] = log_probs[row][seen].tolist()
        rollout = {"turns": [turn], "reward": float(scores[row])}
        rollout["group_id"] = str(uids[row]) if uids is not None else turn["prompt"][:200]
        success = None if accuracies is None else _truth(accuracies[row])
        yield rollout if success is None else {**rollout, "success": success}


def _rows_of_texts(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The outputs of a rollout become its turns; its score stands with the last."""
    inputs, outputs, scores = columns["inputs"], columns["outputs"], columns["scores"]
    uids: Sequence[str] | None = (columns.get("reward_extra_infos_dict") or {}).get("uid")
    if uids is None:
        raise CollapsewatchError("verl's v1 trainer gave no `uid` for its rollouts")
    rollouts: dict[str, dict[str, Any]] = {}
    for prompt, response, score, uid in zip(inputs, outputs, scores, uids, strict=True):
        match = _UID.fullmatch(uid)
        name = uid if match is None else f"{match['sample']}_{match['rollout']}"
        group = uid if match is None else match["sample"]
        rollout = rollouts.setdefault(name, {"group_id": group, "rollout_id": name, "turns": []})
        rollout["turns"].append({"prompt": prompt, "response": response})
        rollout["reward"] = float(score)
    return list(rollouts.values())


def _truth(value: Any) -> bool | None:
    return bool(value) if value in (0, 1, True, False) else None


def _is_number(value: Any) -> bool:
    if isinstance(value, str | bytes | bool | Mapping | list | tuple):
        return False
    try:
        float(value)
    except (TypeError, ValueError, RuntimeError):
        return False
    return True


def _plain(config: Any) -> dict[str, Any]:
    """verl's config as plain Python: it comes so, or as OmegaConf."""
    omegaconf: Any = sys.modules.get("omegaconf")
    if omegaconf is not None and omegaconf.OmegaConf.is_config(config):
        config = omegaconf.OmegaConf.to_container(config, resolve=True)
    return dict(config) if isinstance(config, Mapping) else {}


if "verl" in sys.modules:
    # Loaded by verl itself, as a plugin.
    register()
