"""A tiny language-model agent, trained for real on the CPU, that collapses; and its filtered sibling.

The agent walks a 5×5 grid, thinks in four short sentences and answers with one move. `train.py` knows the
service only through the public SDK, as any trainer would. Start it with `collapsewatch demo`.
"""
