"""A batch taken apart: reasoning, scopes, matrices sent along, numbers of the whole batch."""
