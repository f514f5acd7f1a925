"""People: their accounts, passwords, sessions and invitations, and what is noted of what they do."""
