"""Why a job fails, and whether trying again can help. Every room of the worker raises these."""

from typing import ClassVar


class JobError(Exception):
    """A job that cannot be scored, for a reason that a person can read."""

    retry: ClassVar[bool] = True
    """Whether another start of the same job may succeed."""


class BatchNotScorable(JobError, ValueError):
    """The batch itself is at fault: another start would fail in the same way."""

    retry = False


class CheckpointNotAllowed(JobError, PermissionError):
    """The checkpoint lies outside the folders that this worker's operator allowed."""

    retry = False


class CheckpointNotReady(JobError, FileNotFoundError):
    """The checkpoint folder is missing or half-written; it may be whole in a moment."""


class CheckpointNotUsable(JobError, ValueError):
    """The checkpoint is whole but cannot be loaded safely: no safetensors, or code of its own."""

    retry = False


class EngineUnavailable(JobError, ConnectionError):
    """The engine that holds the model gave no good answer in time; it may in a moment."""


class EngineNotUsable(JobError, ValueError):
    """The engine refuses this worker, or its answers are not log-probabilities of what was asked."""

    retry = False
