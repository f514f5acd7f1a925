"""One rank of a sharded training that scores itself; started twice by `test_sharded_scoring`.

`python -m tests.sdk.sharded_scoring KIND RANK COUNT FILE`: KIND is ddp, fsdp1, fsdp2 or zero3, FILE is where
the ranks meet; what was seen goes to stdout as JSON.
"""

import json
import os
import sys
from importlib import import_module
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from transformers import PreTrainedModel

from collapsewatch.scoring import cross_score, gathered
from tests.sdk.test_cross_score import PROMPTS, batch_of, slowly
from tests.worker.tiny_models import HEADS, tiny_model


def main(kind: str, rank: int, count: int, meeting: str) -> None:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank)}
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=count)
    told = trained(kind, rank, count, scores=True)
    told["same_as_unscored"] = told.pop("weights") == trained(kind, rank, count, scores=False)["weights"]
    print(json.dumps({"rank": rank, **told}))
    dist.destroy_process_group()


def trained(kind: str, rank: int, count: int, *, scores: bool) -> dict[str, Any]:
    """What two steps of training show: errors of the matrix at each, and the sum of all weights after."""
    model = tiny_model("llama", **HEADS)
    wrapped, step = WRAPPERS[kind](model)
    errors, sizes = [], []
    for number in range(2):
        ids = torch.tensor([PROMPTS[rank]])
        wrapped.train()
        step(wrapped(input_ids=ids, labels=ids).loss)
        if scores:
            # Each rank holds a part of the step.
            part = {
                name: column[rank::count] if isinstance(column, list) else column
                for name, column in batch_of().items()
            }
            batch = gathered(part)
            matrix = cross_score(wrapped, batch, spread=True, token_budget=30 if number else None)
            assert matrix is not None
            reference = plain_copy(kind, wrapped)
            order = [row for first in range(count) for row in range(first, 6, count)]
            want = slowly(reference, batch_of())[order]
            columns = [int(name[1:]) for name in matrix.column_group_ids]
            errors.append(float(np.abs(np.array(matrix.log_probs) - want[:, columns]).max()))
            sizes.append([len(matrix.log_probs), len(batch["rollouts"])])
    return {"errors": errors, "sizes": sizes, "weights": weights_of(kind, wrapped)}


def plain_copy(kind: str, wrapped: Any) -> PreTrainedModel:
    copy = tiny_model("llama", **HEADS)
    copy.load_state_dict(full_state(kind, wrapped))
    return copy


def weights_of(kind: str, wrapped: Any) -> float:
    return float(sum(value.double().abs().sum() for value in full_state(kind, wrapped).values()))


def full_state(kind: str, wrapped: Any) -> dict[str, Any]:
    """All weights, by each library's own way."""
    if kind == "ddp":
        return dict(wrapped.module.state_dict())
    if kind == "zero3":
        deepspeed: Any = import_module("deepspeed")
        with deepspeed.zero.GatheredParameters(list(wrapped.module.parameters())):
            return {name: value.detach().clone() for name, value in wrapped.module.state_dict().items()}
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    options = StateDictOptions(full_state_dict=True)
    state = get_model_state_dict(wrapped, options=options)
    # Rank 0 alone is given all of it.
    box = [state if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box, src=0)
    assert box[0] is not None
    return dict(box[0])


def _stepping(wrapped: Any) -> Any:
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.5)

    def step(loss: Any) -> None:
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _ddp(model: Any) -> tuple[Any, Any]:
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    return wrapped, _stepping(wrapped)


def _fsdp1(model: Any) -> tuple[Any, Any]:
    from torch.distributed.fsdp import FullyShardedDataParallel as Fsdp
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    kind = type(model.model.layers[0])
    wrapped = Fsdp(
        model, auto_wrap_policy=ModuleWrapPolicy({kind}), use_orig_params=True, device_id=torch.device("cpu")
    )
    return wrapped, _stepping(wrapped)


def _fsdp2(model: Any) -> tuple[Any, Any]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, _stepping(model)


def _zero3(model: Any) -> tuple[Any, Any]:
    deepspeed: Any = import_module("deepspeed")
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
        "optimizer": {"type": "SGD", "params": {"lr": 0.5}},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)

    def step(loss: Any) -> None:
        engine.backward(loss)
        engine.step()

    return engine, step


WRAPPERS: dict[str, Any] = {"ddp": _ddp, "fsdp1": _fsdp1, "fsdp2": _fsdp2, "zero3": _zero3}

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
