"""Scores of every reasoning under every prompt: by a model (`engine`) or without one (`lexical`)."""
