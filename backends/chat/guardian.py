"""Runs a command and stops it when its parent ends: `python guardian.py PARENT_PID COMMAND …`.

The command gets its own process group, so that its child processes are stopped too. Its output goes to our standard
error. When our standard input is closed or our parent has ended, however that happened, the group gets SIGTERM and, if
it does not stop, SIGKILL. Uses only the standard library.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading

STOP_LIMIT_S = 10.0
"""Time between SIGTERM and SIGKILL. Shorter than the time that our own parent waits for us."""


def wait_for_the_end_of(parent_pid: int) -> None:
    """Blocks until standard input is closed or the parent has ended; returns at once if that has happened already."""
    waiting_for = select.poll()
    waiting_for.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
    if hasattr(os, "pidfd_open"):  # a process forked from our parent may hold a copy of the pipe
        try:
            waiting_for.register(os.pidfd_open(parent_pid), select.POLLIN)
        except ProcessLookupError:
            return
    if os.getppid() == parent_pid:
        waiting_for.poll()


def signal_group(child: "subprocess.Popen[bytes]", number: int) -> None:
    """Sends a signal to the command and all its child processes."""
    with contextlib.suppress(ProcessLookupError):  # all have ended
        os.killpg(child.pid, number)


def stop(child: "subprocess.Popen[bytes]") -> None:
    """Sends SIGTERM to the group, and SIGKILL to what has not stopped in time."""
    signal_group(child, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(STOP_LIMIT_S)
    signal_group(child, signal.SIGKILL)


def main(parent_pid: int, command: list[str]) -> int:
    """Runs the command, stops it when the parent ends or standard input is closed, and returns its exit code.

    The code is 127 if it does not start, and 128 plus the signal's number if a signal ended it. Processes that it
    leaves behind are killed; SIGINT and SIGTERM to this process are ignored.
    """
    try:
        child = subprocess.Popen(  # noqa: S603 - the command is our caller's
            command, stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True
        )
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127

    for number in (signal.SIGINT, signal.SIGTERM):  # after the start: a command inherits what is ignored
        signal.signal(number, signal.SIG_IGN)

    def watch() -> None:
        wait_for_the_end_of(parent_pid)
        stop(child)

    threading.Thread(target=watch, daemon=True).start()
    code = child.wait()
    signal_group(child, signal.SIGKILL)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
