"""Who may do what: one table of rules for all routes, and what a caller can see at all."""
