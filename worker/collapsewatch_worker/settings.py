"""What the operator can set: one class, read once in `main`, passed on."""

import json
import os
import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

_ONE_DEVICE = r"(auto|cpu|cuda|cuda:\d+)"
DEVICE_PATTERN = rf"^{_ONE_DEVICE}(,{_ONE_DEVICE})*$"
MEMORY_PATTERN = r"^(?:auto|(\d+(?:\.\d+)?) ?(%|[KMGT]iB|B)?)$"
"""`auto`, or a number and its unit: a share of the memory, or bytes."""
Dtype = Literal["auto", "float32", "bfloat16", "float16"]
DeviceMap = Literal["auto"]
Engine = Literal["transformers", "sglang", "vllm"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]

DEFAULT_HOME = Path("~/.collapsewatch")


class ScoringSettings(BaseModel):
    """The part of the settings that the scoring process gets: no worker key and no queue address."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    worker: str
    """Name of this worker, as the server knows it."""
    blob_url: str
    device: str
    dtype: Dtype
    checkpoint_roots: tuple[Path, ...]
    max_batch_bytes: int
    token_budget: int | None
    num_cached_models: int
    model_memory: str
    device_map: DeviceMap | None
    num_torch_threads: int | None
    engine: Engine
    engine_url: str | None
    engine_key: SecretStr | None
    engine_patience_seconds: float
    log_level: LogLevel

    @field_serializer("engine_key", when_used="json")
    def _opened(self, key: SecretStr | None) -> str | None:
        # The one secret that the scoring process needs: it calls the engine itself.
        return key.get_secret_value() if key is not None else None


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
    """Where models run: `auto`, `cpu`, `cuda` (a process per GPU), `cuda:<number>`, or several by commas."""
    dtype: Dtype = "auto"
    """Precision of weights: `auto` (bfloat16 on a GPU, else float32), `float32`, `bfloat16` or `float16`."""
    checkpoint_roots: Annotated[tuple[Path, ...], NoDecode] = ()
    """Folders from which checkpoints may be loaded, separated by `:`. Empty: no checkpoint is loaded."""
    claim_wait_seconds: Annotated[float, Field(gt=0, le=30)] = 1.0
    """How long one look for work may wait, at Redis or in the claim call."""
    max_batch_bytes: Annotated[int, Field(gt=0)] = 256 * 2**20
    """Largest batch after decompression, in bytes; a larger one fails for good."""
    token_budget: Annotated[int, Field(ge=256)] | None = None
    """Most tokens in one forward pass of a model; found from the free memory when absent."""
    num_cached_models: Annotated[int, Field(ge=1)] = 2
    """Models kept between jobs, and LoRA adapters kept on each; the one used longest ago goes first."""
    model_memory: Annotated[str, Field(pattern=MEMORY_PATTERN)] = "auto"
    """Most memory for models: `24GiB`, `60%`, or `auto` (half of the RAM; nine tenths of what a GPU has)."""
    device_map: DeviceMap | None = None
    """`auto` spreads one model over all visible GPUs, for models larger than one."""
    engine: Engine = "transformers"
    """Who computes log-probabilities: `transformers` right here, or a running `sglang` or `vllm` server."""
    engine_url: str | None = None
    """Address of that server, which must serve the policy that is scored."""
    engine_key: SecretStr | None = None
    """Key of that server, when it asks for one."""
    engine_patience_seconds: Annotated[float, Field(ge=0)] = 120.0
    """How long that server is waited for while it is away, or has not loaded the checkpoint yet."""
    num_torch_threads: Annotated[int, Field(ge=1)] | None = None
    """CPU threads of one scoring process; PyTorch's own choice when absent."""
    max_job_seconds: Annotated[float, Field(gt=0)] = 3600.0
    """A job that takes longer is stopped and fails."""
    shutdown_seconds: Annotated[float, Field(ge=0)] = 10.0
    """How long a stopping worker waits for the job in hand before it gives it back."""
    log_level: LogLevel = "INFO"
    """Least severe message that is logged: `DEBUG`, `INFO`, `WARNING` or `ERROR`."""

    @field_validator("server_url", "engine_url")
    @classmethod
    def _is_http(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if not re.match(r"^https?://[^/]", url):
            raise ValueError(f"a server's address starts with http:// or https://, got {url!r}")
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

    @field_validator(
        *("worker_key", "redis_url", "blob_url", "token_budget", "device_map"),
        *("engine_url", "engine_key"),
        mode="before",
    )
    @classmethod
    def _empty_is_absent(cls, value: object) -> object:
        # Compose files pass an unset variable on as an empty string.
        return None if value == "" else value

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.engine != "transformers" and self.engine_url is None:
            raise ValueError(f"the engine {self.engine} needs its address, `engine_url`")
        if self.engine == "transformers" and self.engine_url is not None:
            raise ValueError("`engine_url` is for the engines sglang and vllm; set `engine` as well")
        if self.device_map is not None and self.device not in ("auto", "cuda"):
            raise ValueError(f"a device map takes all GPUs, so the device is auto or cuda, got {self.device}")
        return self

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
            model_memory=self.model_memory,
            device_map=self.device_map,
            num_torch_threads=self.num_torch_threads,
            engine=self.engine,
            engine_url=self.engine_url,
            engine_key=self.engine_key,
            engine_patience_seconds=self.engine_patience_seconds,
            log_level=self.log_level,
        )

    def changed(self, **given: object) -> Self:
        """These settings with every `given` value that is not None in their place, validated."""
        changes = {name: value for name, value in given.items() if value is not None}
        return type(self)(**{**dict(self), **changes})
