"""What a long time without a server costs the training process in memory."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.ingest.processes import ours, peers
from benchmarks.ingest.report import Row

# MLflow takes ten milliseconds and more for each call and keeps nothing back, so it has no place here.
_PEERS = ("trackio", "wandb")


def measure(folder: Path, *, calls: int) -> Iterator[Row]:
    """Growth of the resident memory over so many `log` calls; ours has no server to send them to."""
    grown: dict[str, dict[str, float]] = {}
    for contestant in [ours(None), *(peer for peer in peers() if peer.name in _PEERS)]:
        answer = contestant.ask("memory", folder / f"memory-{contestant.name}", "--calls", str(calls))
        assert isinstance(answer, dict)
        growth = (answer["after"] - answer["before"]) / 2**20
        grown[contestant.name] = {"growth": growth, "afterwards": answer["after"] / 2**20}
    for name in _PEERS:
        for metric in ("growth", "afterwards"):
            case = f"memory of the training process, {calls:,} log calls"
            yield Row(case, metric, grown["collapsewatch"][metric], "MiB", grown[name][metric], name)
