"""A model as one whole on this device, whatever a trainer has wrapped around it.

Sources read: PyTorch 2.13 (`torch/distributed/fsdp`, `_fully_shard`), DeepSpeed 0.19.8 (`runtime/zero`).
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

_WRAPPED_IN = ("module", "_orig_mod", "_fsdp_wrapped_module")
"""Where DDP and DeepSpeed, `torch.compile`, and FSDP keep the module that they wrap."""


@contextmanager
def whole_model(model: Any) -> Iterator[Any]:
    """A context with the transformers or PEFT model, all its weights on this device, in `eval` mode.

    Under FSDP and DeepSpeed ZeRO-3 entering and leaving are things that all ranks do together, and the
    device holds the whole model meanwhile. Inside, each rank may call it as often as it likes. Weights that
    are changed inside are not kept. Neither enter it within a forward or backward pass.
    """
    with ExitStack() as stack:
        stack.enter_context(_outside_of_autocast(model))
        if _is_compiled(model):
            import torch

            # Each new shape would be compiled anew, and there are as many as there are prompts.
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        _gather_sharded(model, stack)
        _gather_zero3(model, stack)
        _gather_fsdp1(model, stack)
        whole = _unwrapped(model)
        stack.enter_context(_without_mixed_precision(whole))
        stack.enter_context(_evaluating(whole))
        yield whole


def _unwrapped(model: Any) -> Any:
    """The model inside every wrapper around it."""
    import torch

    while not hasattr(model, "config") or _is_wrapper(model):
        inner = next(
            (vars(model).get("_modules", {}).get(name) for name in _WRAPPED_IN if _holds(model, name)), None
        )
        if not isinstance(inner, torch.nn.Module):
            return model
        model = inner
    return model


def _holds(model: Any, name: str) -> bool:
    return vars(model).get("_modules", {}).get(name) is not None


def _is_wrapper(model: Any) -> bool:
    """Whether a module is nothing but a shell: some pass the attributes of what they wrap through."""
    # A model of transformers has modules of its own beside one that happens to be called `module`.
    return len(vars(model).get("_modules", {})) == 1 and any(_holds(model, name) for name in _WRAPPED_IN)


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Has every module evaluate, so that dropout and gradient checkpointing rest; afterwards as before."""
    before = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for module, training in before:
            module.training = training


@contextmanager
def _outside_of_autocast(model: Any) -> Iterator[None]:
    """Computes in the dtype of the weights: what the engine finds out about a model holds for that one."""
    import torch

    parameter = next(iter(model.parameters()), None)
    kind = "cpu" if parameter is None else parameter.device.type
    with torch.autocast(kind, enabled=False):
        yield


@contextmanager
def _without_mixed_precision(model: Any) -> Iterator[None]:
    """Takes off the forward function by which accelerate computes in another dtype than the weights have."""
    own = vars(model)
    patched, plain = own.get("forward"), own.get("_original_forward")
    if patched is None or plain is None:
        yield
        return
    own["forward"] = plain
    try:
        yield
    finally:
        own["forward"] = patched


def _is_compiled(model: Any) -> bool:
    return any(
        "_orig_mod" in vars(module).get("_modules", {}) or vars(module).get("_compiled_call_impl") is not None
        for module in model.modules()
    )


@contextmanager
def _without_hooks(model: Any, library: str) -> Iterator[None]:
    """Takes a library's forward hooks off all modules; afterwards each stands where it stood."""
    before: list[tuple[Any, dict[Any, Any]]] = []
    try:
        for module in model.modules():
            for hooks in (module._forward_pre_hooks, module._forward_hooks):
                theirs = [key for key, hook in hooks.items() if _is_of(hook, library)]
                if theirs:
                    before.append((hooks, dict(hooks)))
                for key in theirs:
                    del hooks[key]
        yield
    finally:
        for hooks, all_of_them in before:
            hooks.clear()
            hooks.update(all_of_them)


def _is_of(hook: Any, library: str) -> bool:
    return str(getattr(hook, "__module__", "")).startswith(library)


def _gather_sharded(model: Any, stack: ExitStack) -> None:
    """FSDP's second form, `fully_shard`: whole parameters until the stack is unwound."""
    distributed = sys.modules.get("torch.distributed.fsdp")
    kind = getattr(distributed, "FSDPModule", None)
    sharded = [] if kind is None else [module for module in model.modules() if isinstance(module, kind)]
    if not sharded:
        return
    # Its hooks would give each layer's weights back after its forward pass, and gather them again next time.
    stack.enter_context(_without_hooks(model, "torch.distributed.fsdp."))
    for module in sharded:
        stack.callback(module.reshard)
        module.unshard()


def _gather_fsdp1(model: Any, stack: ExitStack) -> None:
    """FSDP's first form: whole parameters, and without the wrappers, which allow no forward pass then."""
    distributed = sys.modules.get("torch.distributed.fsdp")
    kind: Any = getattr(distributed, "FullyShardedDataParallel", None)
    if kind is None or not any(isinstance(module, kind) for module in model.modules()):
        return
    stack.enter_context(kind.summon_full_params(model, writeback=False))
    parents = [(parent, dict(parent._modules)) for parent in model.modules()]
    stack.callback(_restore_modules, parents)
    for parent, children in parents:
        for name, child in children.items():
            if isinstance(child, kind):
                parent._modules[name] = child._modules["_fsdp_wrapped_module"]


def _restore_modules(parents: list[tuple[Any, dict[str, Any]]]) -> None:
    for parent, children in parents:
        parent._modules.update(children)


def _gather_zero3(model: Any, stack: ExitStack) -> None:
    """DeepSpeed's ZeRO-3: whole parameters until the stack is unwound."""
    parameters = [parameter for parameter in model.parameters() if hasattr(parameter, "ds_id")]
    if not parameters:
        return
    deepspeed: Any = sys.modules["deepspeed"]
    stack.enter_context(deepspeed.zero.GatheredParameters(parameters))
    stack.enter_context(_without_hooks(model, "deepspeed."))
