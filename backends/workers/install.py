"""Installs a worker environment, completely or not at all: a virtual environment with pinned requirements."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock

from backends.workers.environments import REQUIREMENTS, SERVE, STAMP, WorkerEnvironment
from data_schemas.errors import BackendError

_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "--no-color", "--python")
_INSTALL = ("install", "--progress-bar", "off")
_PACKAGE = re.compile(r"^(?:Collecting|Requirement already satisfied:) ([\w.\[\]-]+)")
_N_QUOTED = 300
_NO_SPACE = ("No space left on device", "Disk quota exceeded")
_NO_NETWORK = (
    *("NewConnectionError", "NameResolutionError", "Temporary failure in name resolution", "Network is unreachable"),
    *("ConnectTimeoutError", "Connection refused", "ProxyError", "Could not find a version that satisfies"),
)
_FREE_SPACE = "Free some space, or set KAME_CACHE to a folder on another disk, then run the same command again."

OnStep = Callable[[str], None]
"""Progress callback, called with a few words for each step."""


def install(place: WorkerEnvironment, on_step: OnStep, *, again: bool = False) -> Path:
    """Installs the environment in its folder, unless it is complete there, and returns the folder.

    Its stamp is written last: an interrupted installation is repeated. A complete environment that is reinstalled is
    moved aside (its files hold the path of its folder, so that the new one cannot be made elsewhere), and moved back if
    that fails. A file lock makes concurrent installations of the same environment wait for each other.

    Args:
        again: reinstall it even if it is complete.

    Raises:
        BackendError: no network, no disk space, or the result does not work; a complete environment from before is
            kept.
    """
    folder = place.get_folder()
    old = folder.with_name(f"{folder.name}.old")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f"{folder.name}.lock")):
            _restore(place, folder, old)
            if place.is_installed():
                if not again:
                    return folder
                folder.rename(old)
            elif folder.exists():
                on_step(f"Removing what is in {folder}")
                shutil.rmtree(folder)
            try:
                _check_space(place, folder.parent)
                _create(place, folder, on_step)
            finally:
                _restore(place, folder, old)
    except OSError as error:
        raise BackendError(f"Cannot make the worker environment {folder}: {error}.", _FREE_SPACE) from error
    return folder


def _restore(place: WorkerEnvironment, folder: Path, old: Path) -> None:
    """Removes the environment that was moved aside, if there is one, or moves it back if no complete one replaced it.

    It is there after a reinstallation, also after one that was killed.
    """
    if not old.exists():
        return
    if place.is_installed():
        shutil.rmtree(old, ignore_errors=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)
        old.rename(folder)


def _check_space(place: WorkerEnvironment, folder: Path) -> None:
    """Raises BackendError if the disk of a folder has too little free space for the environment."""
    n_free_mib = shutil.disk_usage(folder).free >> 20
    if n_free_mib < place.n_mib:
        raise BackendError(
            f"The worker environment {place.name} takes {place.n_mib} MiB; {folder} has {n_free_mib} free.", _FREE_SPACE
        )


def _create(place: WorkerEnvironment, folder: Path, on_step: OnStep) -> None:
    """Creates the environment, checks that its engine loads, and writes the stamp; keeps nothing if a step fails."""
    python = str(place.get_python())
    try:
        on_step(f"Making {folder}")
        _run(place, [sys.executable, "-m", "venv", "--without-pip", str(folder)], on_step)
        for name in place.lists:
            list_file = REQUIREMENTS / name
            hashed = ("--require-hashes",) if "--hash=" in list_file.read_text(encoding="utf-8") else ()
            # torch is resolved with its dependencies for this machine; other lists are complete
            closed = ("--no-deps",) if hashed else ()
            pip = [sys.executable, *_PIP, python, *_INSTALL]  # our own pip: no need to install another
            _run(place, [*pip, *closed, *hashed, "-r", str(list_file)], on_step)
        on_step("Checking that it works")
        engine_file = place.find_engine_file()
        look = [str(SERVE), str(engine_file)] if engine_file else ["-c", f"import {place.server}"]
        _run(place, [python, "-I", *look], on_step)
        (folder / STAMP).touch()
    except BaseException:  # also Ctrl-C: a partial environment is useless
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _run(place: WorkerEnvironment, command: list[str], on_step: OnStep) -> None:
    """Runs a command, and reports each package that pip names and when pip unpacks them.

    Raises:
        BackendError: it fails; quotes its last line that reports an error, else its last line.
    """
    last: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:  # noqa: S603
        try:
            for package, line in _list_packages(process.stdout or ()):
                last = [*last[-40:], line]
                if package:
                    on_step(f"Fetching {package}")
                elif line.startswith("Installing collected packages"):
                    on_step("Unpacking")
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise _make_error(place, last)


def _list_packages(lines: "Iterator[str] | tuple[()]") -> Iterator[tuple[str, str]]:
    """Yields each line of pip's output with the package that it fetches, empty if none: (package, line)."""
    for line in lines:
        found = _PACKAGE.match(line)
        yield (found.group(1) if found else ""), line.strip()


def _make_error(place: WorkerEnvironment, lines: list[str]) -> BackendError:
    """Makes the error of a command that failed, from the last lines of its output."""
    said = "\n".join(lines)
    errors = [line for line in lines if line.startswith("ERROR:")] or [line for line in lines if line] or ["no message"]
    what = f"The worker environment {place.name} could not be made: {errors[-1][:_N_QUOTED]}."
    if any(each in said for each in _NO_SPACE):
        return BackendError(what, _FREE_SPACE)
    if any(each in said for each in _NO_NETWORK):
        return BackendError(
            what,
            "The package index cannot be reached: check the network connection, then run the same command again.",
        )
    return BackendError(
        what, "Run the same command again; if it still fails, this machine may lack what a package needs."
    )
