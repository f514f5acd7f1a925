"""The folder that batches lie in, and how a batch is packed."""

from pathlib import Path

import pytest
import zstandard

from collapsewatch.blobs import BlobNotFound, BlobTooLarge, open_blob_store, pack_batch, unpack_batch
from collapsewatch.contracts.rollouts import Rollout, RolloutBatch, Turn


@pytest.fixture
def batch() -> RolloutBatch:
    turn = Turn(prompt="Where is the key? <think>", response="Under the mat.</think>north")
    return RolloutBatch(batch_id="b1", step=3, rollouts=[Rollout(group_id="g", turns=[turn], reward=0.5)])


def test_what_was_written_is_read_back_and_deleted(tmp_path: Path) -> None:
    store = open_blob_store(f"file://{tmp_path}/blobs")
    store.write("batches/run-1/b.zst", b"one")
    store.write("batches/run-1/b.zst", b"three")
    assert store.read("batches/run-1/b.zst") == b"three"
    assert store.size("batches/run-1/b.zst") == 5
    store.delete("batches/run-1/b.zst")
    store.delete("batches/run-1/b.zst")
    for lookup in (store.read, store.size):
        with pytest.raises(BlobNotFound, match=r"batches/run-1/b\.zst"):
            lookup("batches/run-1/b.zst")


def test_no_temporary_file_stays_behind(tmp_path: Path) -> None:
    open_blob_store(str(tmp_path)).write("a/b", b"x")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["b"]


@pytest.mark.parametrize("key", ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "a/.", "a b", "a\n", "ü"])
def test_a_key_cannot_leave_the_folder(tmp_path: Path, key: str) -> None:
    store = open_blob_store(str(tmp_path))
    for call in (store.read, store.size, store.delete, lambda k: store.write(k, b"x")):
        with pytest.raises(ValueError, match="not a blob key"):
            call(key)


@pytest.mark.parametrize("url", ["", "s3://bucket/x", "file://host/x", "file://", "file:///"])
def test_an_unusable_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        open_blob_store(url)


def test_a_packed_batch_is_the_same_batch(batch: RolloutBatch) -> None:
    assert unpack_batch(pack_batch(batch), max_bytes=10_000) == batch


def test_a_bomb_stops_at_the_limit(batch: RolloutBatch) -> None:
    bomb = zstandard.ZstdCompressor().compress(b" " * 50_000_000)
    with pytest.raises(BlobTooLarge, match="more than 1000 bytes"):
        unpack_batch(bomb, max_bytes=1000)


def test_a_damaged_batch_is_refused(batch: RolloutBatch) -> None:
    packed = pack_batch(batch)
    with pytest.raises(ValueError, match="cut short"):
        unpack_batch(packed[:-3], max_bytes=10_000)
    with pytest.raises(ValueError, match="not zstd"):
        unpack_batch(b"{}", max_bytes=10_000)
    with pytest.raises(ValueError, match="follow the end"):
        unpack_batch(packed + b"x" * 5000, max_bytes=10_000)
