"""How often one caller, one address and one guesser may come."""
