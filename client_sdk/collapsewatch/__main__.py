"""`python -m collapsewatch` is the console script."""

from collapsewatch.cli import main

main()
