"""The line of progress, on a terminal and in a log."""

import io

from collapsewatch.importers.files import Meter
from collapsewatch.importers.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_one_line_that_is_rewritten() -> None:
    stream = Terminal()
    progress = Progress(Meter(50, 100), stream)
    progress.read(7, 128)
    progress.scored(3, 2)
    progress.close()
    lines = stream.getvalue().split("\r")
    assert lines[0] == ""
    assert (
        lines[-1] == "[############------------]  50%  step 7  1 steps, 128 rollouts, 3 scored, 2 waiting\n"
    )
    assert "\n" not in "".join(lines[:-1])


def test_what_is_told_stands_above_the_line() -> None:
    stream = Terminal()
    progress = Progress(Meter(0, 100), stream)
    progress.read(1, 1)
    width = len(progress.line())
    progress.tell("something")
    assert stream.getvalue().endswith("\r" + " " * width + "\rsomething\n")


def test_a_log_gets_a_line_now_and_then() -> None:
    stream = io.StringIO()
    progress = Progress(Meter(0, 100), stream)
    for step in range(1000):
        progress.read(step, 1)
    progress.close()
    assert stream.getvalue() == ""
    progress.show(now=True)
    assert stream.getvalue().count("\n") == 1


def test_a_file_that_grows_fills_the_bar_and_no_more() -> None:
    assert "100%" in Progress(Meter(300, 100), io.StringIO()).line()
    assert "  0%" in Progress(Meter(0, 0), io.StringIO()).line()
