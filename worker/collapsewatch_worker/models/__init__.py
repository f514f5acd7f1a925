"""Checkpoints and tokenizers from disk."""
