"""What a worker needs: the server with a key, the blobs, checkpoints that load, the GPU that is there."""

import os
from pathlib import Path

import httpx
import redis
import torch
from pydantic import ValidationError

from collapsewatch.doctor.findings import Finding, Look, bad, go_through, note, ok
from collapsewatch_worker.errors import JobError
from collapsewatch_worker.models.folders import allowed_folder, checked_folder
from collapsewatch_worker.models.loading import load_config
from collapsewatch_worker.models.tokenizer_files import load_tokenizer
from collapsewatch_worker.settings import WorkerSettings

_SECONDS = 5.0
# An id that no job has: ids count up from 1.
_NO_JOB = 2**63 - 1
_GPU_FILES = ("/dev/nvidia0", "/dev/kfd")
_MOST_LISTED = 10_000


def checks() -> list[Finding]:
    """What was found on this machine as a worker."""
    try:
        settings = WorkerSettings()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"]) or "settings"
        return [bad(name, first["msg"].removeprefix("Value error, "), "correct the variable")]
    looks: list[tuple[str, Look]] = [
        ("server", lambda: _server(settings)),
        ("redis", lambda: _redis(settings)),
        ("blobs", lambda: _blobs(settings)),
        ("gpu", lambda: _gpu(settings)),
        ("checkpoints", lambda: _checkpoints(settings)),
    ]
    return list(go_through(looks))


def _server(settings: WorkerSettings) -> Finding:
    if settings.worker_key is None:
        return note(
            "key",
            "there is no COLLAPSEWATCH_WORKER_KEY",
            "`collapsewatch keys create --purpose worker` makes one; the worker that `serve` starts has it",
        )
    key = settings.worker_key.get_secret_value()
    try:
        answer = httpx.post(
            f"{settings.server_url}/api/v1/worker/jobs/{_NO_JOB}/beat",
            json={"worker": "doctor"},
            headers={"Authorization": f"Bearer {key}"},
            timeout=_SECONDS,
            trust_env=False,
        )
    except httpx.HTTPError as error:
        return bad(
            "server",
            f"nothing answers at {settings.server_url}: {error}",
            "set COLLAPSEWATCH_SERVER_URL to where the server runs, and open the way to it",
        )
    if answer.status_code in (200, 404):
        return ok("server", f"{settings.server_url} answers and takes the key")
    if answer.status_code in (401, 403):
        return bad(
            "key", "the server refuses it", "make one there with `collapsewatch keys create --purpose worker`"
        )
    return note("server", f"it answered with {answer.status_code}", "look at the server's log")


def _redis(settings: WorkerSettings) -> Finding:
    if settings.redis_url is None:
        return ok("redis", "none is used")
    try:
        client = redis.Redis.from_url(settings.redis_url.get_secret_value(), socket_connect_timeout=_SECONDS)
        client.ping()
        client.close()
    except (redis.RedisError, ValueError) as error:
        return bad(
            "redis",
            f"it does not answer: {error}",
            "check COLLAPSEWATCH_REDIS_URL; claims ask the server meanwhile",
        )
    return ok("redis", "answers")


def _blobs(settings: WorkerSettings) -> Finding:
    folder = Path(settings.effective_blob_url.removeprefix("file://"))
    if not folder.is_dir():
        return bad(
            "blobs",
            f"there is no folder {folder}",
            "mount the server's blob folder, or set COLLAPSEWATCH_BLOB_URL",
        )
    if not os.access(folder, os.R_OK | os.X_OK):
        return bad("blobs", f"{folder} cannot be read", "give this user the right to read there")
    return ok("blobs", f"{folder} can be read")


def _gpu(settings: WorkerSettings) -> Finding:
    num_seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if num_seen:
        names = {torch.cuda.get_device_name(number) for number in range(num_seen)}
        return ok("gpu", f"{num_seen} seen: {', '.join(sorted(names))}")
    is_there = next((path for path in _GPU_FILES if Path(path).exists()), None)
    if is_there is None:
        if "cuda" in settings.device:
            return bad(
                "gpu", f"the device is {settings.device}, and no GPU is here", "set COLLAPSEWATCH_DEVICE=cpu"
            )
        return ok("gpu", "none is here; models run on the CPU")
    if torch.version.cuda is None and torch.version.hip is None:
        return bad(
            "gpu",
            f"there is {is_there}, but this PyTorch ({torch.__version__}) is built for the CPU",
            "install the build for your GPU: https://pytorch.org/get-started/locally/",
        )
    return bad(
        "gpu",
        f"there is {is_there}, but PyTorch {torch.__version__} does not see it",
        "check that `nvidia-smi` works for this user, CUDA_VISIBLE_DEVICES, the container's GPUs",
    )


def _checkpoints(settings: WorkerSettings) -> list[Finding]:
    roots = settings.checkpoint_roots
    if not roots:
        return [
            note(
                "checkpoints",
                "no folder is allowed, so no checkpoint is ever loaded",
                "set COLLAPSEWATCH_CHECKPOINT_ROOTS for the scorers `policy` and `reference`",
            )
        ]
    return [_root(root, roots) for root in roots]


def _root(root: Path, roots: tuple[Path, ...]) -> Finding:
    if not root.is_dir() or not os.access(root, os.R_OK | os.X_OK):
        return bad(
            "checkpoints", f"{root} is no folder that can be read", "mount it, or correct the variable"
        )
    newest = _newest_checkpoint(root)
    if newest is None:
        return note("checkpoints", f"there is none below {root} yet", "trainers write them there")
    try:
        folder = checked_folder(allowed_folder(str(newest), roots), roots)
        if not folder.is_adapter:
            load_config(folder.path)
            load_tokenizer(folder.path)
    except JobError as error:
        return bad("checkpoints", str(error), "save it with `save_pretrained(…, safe_serialization=True)`")
    return ok("checkpoints", f"{newest} can be loaded, the newest of {root}")


def _newest_checkpoint(root: Path) -> Path | None:
    names = ("config.json", "adapter_config.json")
    found = []
    for number, (folder, _, files) in enumerate(os.walk(root)):
        if number >= _MOST_LISTED:
            break
        found += [Path(folder) for name in names if name in files]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)
