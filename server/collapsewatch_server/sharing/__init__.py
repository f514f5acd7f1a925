"""Links by which people show runs to others who have no account: scoped, expiring, revocable."""
