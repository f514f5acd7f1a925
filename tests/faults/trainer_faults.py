"""Faults of the trainer's side: it is killed, it rewinds, its spool is damaged, its disk is full."""

import json
import random
import time
from pathlib import Path

from collapsewatch.spool import RecordKind
from tests.faults.account import Sent
from tests.faults.disks import fill
from tests.faults.proxy import Network, Proxy
from tests.faults.scene import Scene
from tests.faults.spool_fuzz import damage, read_back, waiting_in, whole
from tests.faults.stack import TrainerProcess
from tests.faults.workload import Workload

_SPOOL_DISK_BYTES = 2 * 2**20
_NUM_SPOOLED = 12
_NUM_STEPS = 90


def kill_trainer(scene: Scene) -> None:
    """SIGKILL of the trainer; what it left is shipped, and a new start goes on at its next step.

    A step of which not every call had returned is made again by the next start.
    """
    for number in scene.times(3):
        scene.await_moment()
        scene.demand(scene.trainer.kill(), "the trainer had ended")
        if number % 2 == 0:
            scene.trainer.sync()
        step = scene.trainer.next_step()
        scene.note(f"killed before step {step}, " + ("synced" if number % 2 == 0 else "left to init"))
        scene.trainer.start(step)


def rewind_trainer(scene: Scene) -> None:
    """SIGKILL of the trainer; the new start goes back to a checkpoint, and replays what the old one did."""
    for number in scene.times(3):
        scene.await_moment()
        scene.demand(scene.trainer.kill(), "the trainer had ended")
        step = scene.trainer.next_step()
        back = max(0, step - scene.random.randint(2, 6))
        scene.note(f"killed before step {step}, back to {back}")
        if number % 2:
            scene.trainer.sync()
        scene.trainer.start(back)


def damage_spool(scene: Scene) -> None:
    """Bytes of a dead trainer's spool change: every record that is whole arrives, the others are counted.

    Many copies are damaged and read here; the last one is shipped.
    """
    trainer, network = _cut_off(scene, "damaged")
    _await_steps(scene, trainer)
    scene.demand(trainer.kill(), "the trainer had ended")
    network.become(Network.up)
    folder = next(path.parent for path in trainer.spool.rglob("meta.json"))
    rounds = 40 if scene.is_short else 1500
    for number in range(rounds):
        drawn = random.Random(f"{scene.trainer.workload.seed}/{number}")
        problem = read_back(folder, drawn, scene.stack.folder / "fuzz")
        if problem is not None:
            raise AssertionError(f"damaged copy {number} of {folder}: {problem}")
    records = waiting_in(folder)
    left, drawn = records, random.Random(scene.trainer.workload.seed)
    while len(left) == len(records):
        damage(folder, drawn)
        left = whole(folder, records)
    steps = {json.loads(record.body)["step"] for record in left if record.kind is RecordKind.batch}
    known = {step for _, step in scene.audit.accepted(trainer.run_id)}
    code, words = trainer.sync()
    if "Traceback" in words or code not in (0, 1):
        raise AssertionError(f"sync ended with {code}: {words[-400:]}")
    scene.note(f"{rounds} damaged copies read; {len(left)} of {len(records)} records shipped")
    # A batch whose end was never told may have arrived, too.
    scene.other_runs[trainer.run_id] = Sent(
        {("a0", step) for step in steps | known},
        state="running",
        still_open=frozenset({"data_dropped"} if "damaged" in words else ()),
    )


def fill_spool_disk(scene: Scene) -> None:
    """The trainer's disk is full while its server is away: it goes on, drops, and counts what it drops."""
    disk = scene.stack.new_disk(f"disk-{scene.trainer.run_id}", _SPOOL_DISK_BYTES)
    trainer, network = _cut_off(scene, "full", spool=disk / "spool")
    balloon = disk / "balloon"
    fill(balloon)
    _await_steps(scene, trainer)
    scene.demand(not trainer.has_ended(), "the trainer had ended")
    balloon.unlink()
    time.sleep(scene.seconds(0.3, 2.0))
    network.become(Network.up)
    scene.stack.wait_until(trainer.has_ended, "the trainer ends", timeout_seconds=120)
    if trainer.process is None or trainer.process.returncode != 0:
        raise AssertionError(f"the trainer ended badly: see {trainer.log}")
    dropped = trainer.ledger.dropped()
    unexpected = set(dropped) - {"batches_spool_full", "values_spool_full"}
    if unexpected:
        raise AssertionError(f"the trainer dropped {dict(dropped)}")
    num_dropped = dropped["batches_spool_full"]
    scene.demand(num_dropped, "there was room for all")
    scene.note(f"{num_dropped} batches dropped and counted")
    scene.other_runs[trainer.run_id] = Sent(
        set(trainer.ledger.keys()), num_dropped=num_dropped, still_open=frozenset({"data_dropped"})
    )


def _await_steps(scene: Scene, trainer: TrainerProcess) -> None:
    """Comes back once the trainer has logged as much again as it needs to fill a spool."""
    enough = len(trainer.ledger.steps("log")) + _NUM_SPOOLED
    scene.stack.wait_until(
        lambda: len(trainer.ledger.steps("log")) >= enough or trainer.has_ended(), "the trainer goes on"
    )


def _cut_off(scene: Scene, name: str, spool: Path | None = None) -> tuple[TrainerProcess, Proxy]:
    """A second trainer whose run is known and whose network is gone, and that network."""
    network = scene.stack.new_network()
    workload = Workload(scene.trainer.workload.seed, _NUM_STEPS, 0.05)
    trainer = scene.stack.trainer(f"{scene.trainer.run_id}-{name}", workload, network=network, spool=spool)
    trainer.start()
    scene.stack.wait_until(
        lambda: len(scene.audit.accepted(trainer.run_id)) >= 3 or trainer.has_ended(), "its batches arrive"
    )
    network.become(Network.reset)
    scene.demand(not trainer.has_ended(), "the trainer had ended")
    return trainer, network
