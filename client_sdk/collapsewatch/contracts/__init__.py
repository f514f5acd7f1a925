"""Wire types shared by the SDK, the server and the workers. They know pydantic and nothing else."""
