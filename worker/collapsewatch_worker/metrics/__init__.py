"""Metrics of one batch: arrays in, numbers out. Source: docs/metrics.md; arXiv 2604.06268."""
