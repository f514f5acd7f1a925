"""Keeps the log-probs of single tokens, for whoever reads the rollouts."""

import logging
from collections.abc import Sequence

from pydantic import TypeAdapter

from collapsewatch.blobs import BlobStore, pack_document
from collapsewatch.contracts.scoring import TokenLogProbs
from collapsewatch_server.tables import Batch

log = logging.getLogger(__name__)

_STORED = TypeAdapter(list[TokenLogProbs])


def tokens_key(batch: Batch) -> str:
    """Where they lie in the blob store."""
    return f"tokens/{batch.run_pk}/{batch.id}.zst"


def store_tokens(blobs: BlobStore, batch: Batch, tokens: Sequence[TokenLogProbs]) -> None:
    """Writes them beside the batch. A store that takes nothing costs the shades, not the result."""
    packed = pack_document(_STORED.dump_json(list(tokens), exclude_none=True))
    try:
        blobs.write(tokens_key(batch), packed)
    except OSError as error:
        log.warning("log-probs cannot be stored", extra={"batch": batch.id, "error": type(error).__name__})
