"""Scores with a model that runs elsewhere: an SGLang or a vLLM server that the operator named."""
