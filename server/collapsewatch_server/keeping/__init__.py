"""How long what is stored is kept: of the service, and of each project."""
