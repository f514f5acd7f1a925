"""The command `collapsewatch worker`: reads the settings, sets up logging, runs the parent."""

import logging
import os
import signal
import socket
import threading
import uuid
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from pydantic import SecretStr, ValidationError

from collapsewatch_worker.logs import configure_logging
from collapsewatch_worker.loop.devices import run_each, scoring_devices
from collapsewatch_worker.loop.feed import RedisFeed
from collapsewatch_worker.loop.heartbeat import Heart
from collapsewatch_worker.loop.parent import Parent
from collapsewatch_worker.loop.progress import Progress
from collapsewatch_worker.loop.scoring_process import ScoringProcess
from collapsewatch_worker.loop.server_api import WorkerApi
from collapsewatch_worker.settings import WorkerSettings

log = logging.getLogger(__name__)

app = typer.Typer(name="worker", add_completion=False)


@app.command()
def worker_command(
    device: Annotated[
        str | None,
        typer.Option(help="auto, cpu, cuda (a process on every GPU), cuda:<number>, or several with commas."),
    ] = None,
    server: Annotated[str | None, typer.Option(help="Address of the server.")] = None,
    redis_url: Annotated[str | None, typer.Option(help="Redis that suggests the next job.")] = None,
    blob_url: Annotated[
        str | None, typer.Option(help="Where the batches lie: file:///path or a folder.")
    ] = None,
    checkpoint_root: Annotated[
        list[Path] | None, typer.Option(help="Folder from which checkpoints may be loaded; may be repeated.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="auto, float32, bfloat16 or float16.")] = None,
    model_memory: Annotated[
        str | None, typer.Option(help="Most memory for models: auto, 24GiB or 60%.")
    ] = None,
    device_map: Annotated[
        str | None, typer.Option(help="auto: one model on all GPUs, for models larger than one.")
    ] = None,
    token_budget: Annotated[
        int | None, typer.Option(help="Most tokens in one forward pass; found by itself by default.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Who computes log-probabilities: transformers, sglang or vllm.")
    ] = None,
    engine_url: Annotated[str | None, typer.Option(help="Address of the sglang or vllm server.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of this worker; unique by default.")] = None,
    log_level: Annotated[str | None, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = None,
) -> None:
    """Score batches for a server, on this machine's CPU or its GPUs.

    What is not given comes from COLLAPSEWATCH_… variables. Keys are read from COLLAPSEWATCH_WORKER_KEY and
    COLLAPSEWATCH_ENGINE_KEY only: a command line can be seen by every user of the machine.
    """
    try:
        settings = WorkerSettings().changed(
            device=device,
            server_url=server,
            redis_url=SecretStr(redis_url) if redis_url else None,
            blob_url=blob_url,
            checkpoint_roots=tuple(checkpoint_root) if checkpoint_root else None,
            dtype=dtype,
            model_memory=model_memory,
            device_map=device_map,
            token_budget=token_budget,
            engine=engine,
            engine_url=engine_url,
            log_level=log_level.upper() if log_level else None,
        )
    except ValidationError as error:
        raise typer.BadParameter(_told(error)) from error
    configure_logging(settings.log_level)
    stop = threading.Event()
    _stop_on_signals(stop)
    run_workers(settings, name or unique_name(), stop)


def run_workers(settings: WorkerSettings, name: str, stop: threading.Event) -> None:
    """Scores jobs on every device that was asked for until `stop` is set, each as a worker of its own."""
    # An engine elsewhere needs no GPU here.
    alone = settings.device_map is not None or settings.engine != "transformers"
    devices = scoring_devices(settings.device, spread=alone)
    if len(devices) == 1:
        run_worker(settings.changed(device=devices[0]), name, stop)
        return
    workers = [
        partial(run_worker, settings.changed(device=device), f"{name}-{number}", stop)
        for number, device in enumerate(devices)
    ]
    run_each(workers, stop)


def run_worker(settings: WorkerSettings, worker: str, stop: threading.Event) -> None:
    """Scores jobs until `stop` is set."""
    key = settings.worker_key.get_secret_value() if settings.worker_key else None
    if key is None:
        log.warning("no worker key is set, the server will refuse this worker")
    feed = (
        RedisFeed(settings.redis_url.get_secret_value(), block_seconds=settings.claim_wait_seconds)
        if settings.redis_url
        else None
    )
    scoring = settings.for_scoring(worker)
    progress = Progress()
    log.info(
        "worker started", extra={"worker": worker, "server": settings.server_url, "device": settings.device}
    )
    try:
        with (
            WorkerApi(settings.server_url, key, worker) as api,
            Heart(api.heartbeat, worker=worker, device=settings.device, progress=progress, stop=stop),
        ):
            Parent(
                worker=worker,
                api=api,
                feed=feed,
                start_child=lambda: ScoringProcess(scoring),
                stop=stop,
                claim_wait_seconds=settings.claim_wait_seconds,
                max_job_seconds=settings.max_job_seconds,
                shutdown_seconds=settings.shutdown_seconds,
                progress=progress,
            ).run()
    finally:
        if feed is not None:
            feed.close()
    log.info("worker stopped", extra={"worker": worker})


def unique_name() -> str:
    """Host, process and a random tail: process ids repeat across containers and restarts."""
    return f"{socket.gethostname()[:100]}-{os.getpid()}-{uuid.uuid4().hex[:6]}"


def _stop_on_signals(stop: threading.Event) -> None:
    def ask_to_stop(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            # Whoever asks twice does not want to wait for the job in hand.
            raise SystemExit(128 + number)
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)


def _told(error: ValidationError) -> str:
    first = error.errors()[0]
    if not first["loc"]:
        # About several settings at once: the input is all of them, the keys too.
        return first["msg"]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}, got {first['input']!r}"


if __name__ == "__main__":
    app()
