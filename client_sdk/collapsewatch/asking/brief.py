"""A server for one question: the one that answers, or one that is started for as long as it takes."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from collapsewatch.asking.reader import ServerReader
from collapsewatch.asking.service import named_key, service_for
from collapsewatch.cli import PROGRAMS


@contextmanager
def brief_reader(url: str | None, api_key_env: str | None) -> Iterator[ServerReader]:
    """Asks the named server, the local one, or one without a worker that ends with the block.

    Raises:
        AskingFailedError: nobody answers, and none can be started.
    """
    with (
        service_for(
            url,
            None,
            tell=tell,
            needed=PROGRAMS["serve"].modules,
            options=["--no-worker"],
            # An import would wait in vain for a worker of this one.
            is_shared=False,
            read_key=named_key(api_key_env),
        ) as service,
        ServerReader(service.settings) as reader,
    ):
        yield reader


def tell(line: str) -> None:
    """Says something beside the answer."""
    typer.echo(line, err=True)
