"""What the operator can set: one class, read once in `main`, passed on."""

import json
import os
import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

DEVICE_PATTERN = r"^(auto|cpu|cuda|cuda:\d+)$"
Dtype = Literal["auto", "float32", "bfloat16"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]

DEFAULT_HOME = Path("~/.collapsewatch")


class ScoringSettings(BaseModel):
    """The part of the settings that the scoring process gets: no key and no queue address."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    worker: str
    """Name of this worker, as the server knows it."""
    blob_url: str
    device: str
    dtype: Dtype
    checkpoint_roots: tuple[Path, ...]
    max_batch_bytes: int
    token_budget: int
    num_cached_models: int
    num_torch_threads: int | None
    log_level: LogLevel


class WorkerSettings(BaseSettings):
    """Settings of one worker process, from `COLLAPSEWATCH_…` variables; the defaults run on a laptop."""

    model_config = SettingsConfigDict(
        env_prefix="COLLAPSEWATCH_", extra="ignore", frozen=True, use_attribute_docstrings=True
    )

    server_url: str = "http://127.0.0.1:7788"
    """Address of the server whose jobs are scored."""
    worker_key: SecretStr | None = None
    """Key of the worker API; the server prints it once when it makes it."""
    redis_url: SecretStr | None = None
    """Redis that suggests the next job. Without it the claim call waits at the server."""
    home: Path = DEFAULT_HOME
    """Folder in which the embedded form keeps everything."""
    blob_url: str | None = None
    """Where the batches lie: `file:///path` or a folder; `blobs` in the home folder when absent."""
    device: Annotated[str, Field(pattern=DEVICE_PATTERN)] = "auto"
    """Where models run: `auto`, `cpu`, `cuda` or `cuda:<number>`."""
    dtype: Dtype = "auto"
    """Precision of model weights: `auto` (bfloat16 on a GPU, else float32), `float32` or `bfloat16`."""
    checkpoint_roots: Annotated[tuple[Path, ...], NoDecode] = ()
    """Folders from which checkpoints may be loaded, separated by `:`. Empty: no checkpoint is loaded."""
    claim_wait_seconds: Annotated[float, Field(gt=0, le=30)] = 1.0
    """How long one look for work may wait, at Redis or in the claim call."""
    max_batch_bytes: Annotated[int, Field(gt=0)] = 256 * 2**20
    """Largest batch after decompression, in bytes; a larger one fails for good."""
    token_budget: Annotated[int, Field(ge=256)] = 16_384
    """Most tokens, padding included, in one forward pass of a model."""
    num_cached_models: Annotated[int, Field(ge=1)] = 2
    """Models kept in memory between jobs; the one used longest ago goes first."""
    num_torch_threads: Annotated[int, Field(ge=1)] | None = None
    """CPU threads of one scoring process; PyTorch's own choice when absent."""
    max_job_seconds: Annotated[float, Field(gt=0)] = 3600.0
    """A job that takes longer is stopped and fails."""
    shutdown_seconds: Annotated[float, Field(ge=0)] = 10.0
    """How long a stopping worker waits for the job in hand before it gives it back."""
    log_level: LogLevel = "INFO"
    """Least severe message that is logged: `DEBUG`, `INFO`, `WARNING` or `ERROR`."""

    @field_validator("server_url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if not re.match(r"^https?://[^/]", url):
            raise ValueError(f"the server's address starts with http:// or https://, got {url!r}")
        return url.rstrip("/")

    @field_validator("checkpoint_roots", mode="before")
    @classmethod
    def _split_roots(cls, roots: object) -> object:
        if not isinstance(roots, str):
            return roots
        if roots.lstrip().startswith("["):
            return json.loads(roots)
        return [part for part in roots.split(os.pathsep) if part.strip()]

    @field_validator("checkpoint_roots")
    @classmethod
    def _are_absolute(cls, roots: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(root.expanduser().absolute() for root in roots)

    @field_validator("worker_key", "redis_url", "blob_url", mode="before")
    @classmethod
    def _empty_is_absent(cls, value: object) -> object:
        # Compose files pass an unset variable on as an empty string.
        return None if value == "" else value

    @property
    def effective_blob_url(self) -> str:
        """`blob_url`, or the folder `blobs` of the home folder."""
        return self.blob_url or str(self.home.expanduser().absolute() / "blobs")

    def for_scoring(self, worker: str) -> ScoringSettings:
        """What the scoring process of `worker` needs to know."""
        return ScoringSettings(
            worker=worker,
            blob_url=self.effective_blob_url,
            device=self.device,
            dtype=self.dtype,
            checkpoint_roots=self.checkpoint_roots,
            max_batch_bytes=self.max_batch_bytes,
            token_budget=self.token_budget,
            num_cached_models=self.num_cached_models,
            num_torch_threads=self.num_torch_threads,
            log_level=self.log_level,
        )

    def changed(self, **given: object) -> Self:
        """These settings with every `given` value that is not None in their place, validated."""
        changes = {name: value for name, value in given.items() if value is not None}
        return type(self)(**{**dict(self), **changes})
