"""All SQL of the server, one module per kind of row. They know tables and sessions, and no service."""
