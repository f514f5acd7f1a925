"""Runs a command that ends when its parent does, even if the parent is killed.

    python -m collapsewatch.demo.leash PARENT_PID COMMAND...

The kernel sends SIGTERM to the command when the starting thread is gone (Linux; elsewhere the command just
runs). A program of its own rather than a hook between fork and exec, which is unsafe beside other threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ties this process to its parent, then becomes the command."""
    parent_pid, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent_pid:
            # The parent died before the line above, so no signal will come.
            raise SystemExit(1)
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
