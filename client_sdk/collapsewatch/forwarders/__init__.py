"""Scalars that another tool keeps on disk, read without that tool and put beside a run's own series."""

from collapsewatch.forwarders.forward import BESIDE, forward, scalars_of
from collapsewatch.forwarders.tensorboard import tensorboard_scalars
from collapsewatch.forwarders.wandb import wandb_scalars

__all__ = ["BESIDE", "forward", "scalars_of", "tensorboard_scalars", "wandb_scalars"]
