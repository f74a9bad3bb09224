"""The child process that runs llama.cpp: `python -m backends.chat.llamacpp_server --gguf FILE …`.

It prints one line to standard output once it answers requests (`{"base_url": "http://127.0.0.1:…/v1"}`), logs to
standard error, and exits at once when its standard input is closed or its parent has ended. So no server outlives a
run, however the run ends: the kernel closes the pipe of a killed parent, and `guardian.py` watches both.
"""

import argparse
import fcntl
import json
import os
import sys
import threading

from backends.chat.guardian import wait_for_the_end_of

PROMPT_CACHE_MIB = 256
"""Memory for prompts that have left their slot; llama.cpp's own default is 8 GiB, too much for a laptop."""


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Parses the command line that `LlamaCppEngine` makes."""
    parser = argparse.ArgumentParser(prog="llamacpp_server", description="Serves one GGUF model until stdin closes.")
    parser.add_argument("--gguf", required=True, help="model file")
    parser.add_argument("--alias", required=True, help="name under which the model is listed")
    parser.add_argument("--port", type=int, default=0, help="port; 0: any free one")
    parser.add_argument("--n-slots", type=int, required=True, help="concurrent requests")
    parser.add_argument("--n-context", type=int, required=True, help="context of one slot, tokens")
    parser.add_argument("--parent-pid", type=int, required=True, help="process whose exit stops this one")
    return parser.parse_args(arguments)


def exit_with_parent(parent_pid: int) -> None:
    """Waits until standard input is closed or the parent has ended, then exits this process immediately."""
    wait_for_the_end_of(parent_pid)
    os._exit(0)  # llama.cpp's own shutdown waits for answers that nobody will read


def die_when_stdin_closes() -> None:
    """Makes the kernel end this process by SIGIO when standard input closes: no thread runs while a model loads."""
    stdin = sys.stdin.fileno()
    fcntl.fcntl(stdin, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(stdin, fcntl.F_SETFL, fcntl.fcntl(stdin, fcntl.F_GETFL) | os.O_ASYNC)


def start_server(options: argparse.Namespace) -> str:
    """Starts the server and returns its base URL, with `/v1`; it runs on its own threads until the process ends.

    Raises:
        RuntimeError: it does not start; the reason is in the log lines before.
    """
    from xllamacpp import CommonParams, Server  # type: ignore[import-untyped]

    params = CommonParams()
    params.model.path = options.gguf
    params.model_alias = {options.alias}
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.n_parallel = options.n_slots
    params.n_ctx = options.n_slots * options.n_context  # llama.cpp divides it among the slots
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.ui = False
    server = Server(params)
    _KEPT.append(server)
    return f"{server.listening_address}/v1"


_NICENESS = 10
"""A front-end that speaks in real time here has priority: a late answer is awaited, a late frame is a gap."""

_KEPT: list[object] = []
"""The server, which would stop when its last reference is dropped."""


def main(arguments: list[str]) -> None:
    """Starts the server at a lower priority, prints its address as JSON, and waits until the parent ends.

    If the server does not start, the process exits with a message.
    """
    options = parse_arguments(arguments)
    die_when_stdin_closes()
    os.nice(_NICENESS)
    watcher = threading.Thread(target=exit_with_parent, args=(options.parent_pid,), daemon=True)
    watcher.start()
    to_parent = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of libraries goes to the log
    try:
        base_url = start_server(options)
    except RuntimeError as error:  # its reason is in the log lines before
        sys.exit(f"{options.gguf}: {error}")
    print(json.dumps({"base_url": base_url}), file=to_parent, flush=True)
    watcher.join()


if __name__ == "__main__":
    main(sys.argv[1:])
