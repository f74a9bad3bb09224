"""Worker side of the pipe: `python -I serve.py ENGINE_FILE PARENT_PID`, run by a worker environment's interpreter.

It loads the engine's file, whose class `ENGINE` is constructed with the options of the first request (`open`), then
answers requests one by one: `call` names a method that takes arguments and audio and returns both. It exits when its
standard input is closed or its parent has ended, however that happened, even during a request. Without a parent it only
checks that the engine can be loaded: the last step of an installation.
"""

import importlib.util
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backends.workers.frames import Frame


_ABOUT_ITSELF = ("open", "describe")
"""Requests that every engine must handle."""


def load_file(name: str, file: Path, **more: Any) -> ModuleType:
    """Loads a module from a file and registers it in `sys.modules` under the given name; `sys.path` stays the same.

    Raises:
        ImportError: it is not a Python file.
    """
    spec = importlib.util.spec_from_file_location(name, file, **more)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def exit_with_parent(pipe: int, parent_pid: int) -> None:
    """Waits until the other end of the pipe is closed or the parent has ended, then exits this process immediately."""
    waiting_for = select.poll()
    waiting_for.register(pipe, 0)  # a closed pipe is always reported
    if hasattr(os, "pidfd_open"):  # a process forked from our parent may hold a copy of the pipe
        try:
            waiting_for.register(os.pidfd_open(parent_pid), select.POLLIN)
        except ProcessLookupError:
            os._exit(0)
    waiting_for.poll()
    os._exit(0)


def answer(engine_class: Callable[[dict[str, Any]], Any], engine: Any, request: "Frame") -> tuple[Any, "Frame"]:
    """Handles a request; returns the engine, which the request `open` constructs, and the reply. Errors become replies.

    If the engine fails on a request but still handles an easy one, the request is refused: the fault is the request's.
    A lack of memory and errors of `open` and `describe` are always failures.
    """
    from backends.workers.frames import EngineRefusal, Frame

    call, arguments = request.header["call"], request.header["arguments"]
    try:
        if call == "open":
            engine = engine_class(arguments)
            return engine, Frame({"done": {}})
        done, sound = getattr(engine, call)(arguments, request.sound)
        return engine, Frame({"done": done}, sound)
    except EngineRefusal as refusal:
        return engine, Frame({"refused": str(refusal)})
    except Exception as error:  # noqa: BLE001 - the boundary of a process: our side raises it as its own error
        traceback.print_exc()
        is_known = hasattr(engine, call) and call not in _ABOUT_ITSELF
        is_requests_fault = is_known and not _is_lack_of_resources(error) and is_working(engine)
        return engine, Frame({"refused" if is_requests_fault else "failed": f"{type(error).__name__}: {error}"})


def is_working(engine: Any) -> bool:
    """Returns whether the engine's `probe`, an easy request, succeeds or is refused; False if there is no `probe`."""
    from backends.workers.frames import EngineRefusal

    if not hasattr(engine, "probe"):
        return False
    try:
        engine.probe()
    except EngineRefusal:
        return True
    except Exception:  # noqa: BLE001 - any error means that the engine is broken
        traceback.print_exc()
        return False
    return True


def _is_lack_of_resources(error: Exception) -> bool:
    """Returns whether an error is due to a lack of memory or to the system (OSError), and not to the request."""
    return isinstance(error, MemoryError | OSError) or type(error).__name__ == "OutOfMemoryError"  # torch's


def load_engine(engine_file: str) -> type:
    """Loads the class `ENGINE` of a file, which can import only `backends.workers` of this project."""
    root = Path(__file__).resolve().parents[1]
    load_file("backends", root / "__init__.py", submodule_search_locations=[str(root)])
    engine_class: type = load_file("kame_engine", Path(engine_file)).ENGINE
    return engine_class


def main(engine_file: str, parent_pid: int) -> None:
    """Handles requests from standard input until it is closed; replies go to standard output.

    For libraries, standard input is empty and their standard output goes to standard error. SIGINT is ignored.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent; this process exits with it
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    threading.Thread(target=exit_with_parent, args=(requests.fileno(), parent_pid), daemon=True).start()
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # a library that reads standard input must not take our requests
    os.dup2(2, 1)  # output of libraries goes to the log
    engine_class = load_engine(engine_file)
    from backends.workers.frames import read_frame, write_frame

    engine: Any = None
    while (request := read_frame(requests)) is not None:
        engine, reply = answer(engine_class, engine, request)
        write_frame(replies, reply)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        load_engine(sys.argv[1])
    else:
        main(sys.argv[1], int(sys.argv[2]))
