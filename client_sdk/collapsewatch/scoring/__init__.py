"""Scoring inside the trainer, on the weights that it holds: only the matrix leaves the process.

Nothing heavy is imported before a function is called; it then needs the extra `collapsewatch[scoring]`.
"""

from collapsewatch.scoring.adapters import save_adapter
from collapsewatch.scoring.cross import cross_score
from collapsewatch.scoring.ranks import gathered
from collapsewatch.scoring.whole import whole_model

__all__ = ["cross_score", "gathered", "save_adapter", "whole_model"]
