"""`python -m collapsewatch_worker`."""

from collapsewatch_worker.main import app

app(prog_name="collapsewatch worker")
