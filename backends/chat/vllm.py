"""Chat engine that runs a vLLM server in its worker environment (`kame backends install vllm`), reached over HTTP.

Prefix caching is on, as events of a dialogue share most of their prompt. The digest of a model on the Hub is its name
and `chat.revision`; that of a model in a folder is the digest of its files.

What has been tested: this file with a stand-in for vLLM, in tests. vLLM 0.32.0 itself ran once as a build for CPUs,
outside this project (64 s to start on two cores, a few tokens per second); its worker environment, which is for CUDA,
has been installed, but never run on a GPU.
"""

import os
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backends.chat.child_server import HOST, Child, ChildServer, NotReady, find_free_port
from backends.chat.llamacpp import digest_file
from backends.chat.protocol import Endpoint
from backends.chat.providers import make_model_digest
from backends.workers.environments import get_environment
from data_schemas import ids
from data_schemas.config import ChatConfig
from data_schemas.errors import ConfigError

NAME = "vLLM server"
START_LIMIT_S = 3600.0
"""Timeout for the health check; the first start downloads the model."""
GUARDIAN = Path(__file__).with_name("guardian.py")
ALWAYS = ("--enable-prefix-caching", "--enable-prompt-tokens-details")
"""The second option reports with each answer how many tokens came from the prefix cache, which is off by default."""
LOOK_S = 0.25
"""Time between two health checks, seconds."""


class VllmEngine:
    """Serves `config.model` for the duration of a `with` block.

    Args:
        config: names the model; `port`, `revision`, `endpoint`, `extra` and `serve_args` are used too.
        executable: a `vllm` of the caller's own; None: that of the worker environment.

    Raises:
        ConfigError: no model is named.
    """

    def __init__(self, config: ChatConfig, executable: Path | None = None) -> None:
        if not config.model:
            raise ConfigError("The chat engine 'vllm' has no model.", "Set chat.model: a name on the Hub, or a folder.")
        self._config = config
        self._model = config.model
        self._folder = Path(config.model).expanduser()
        self._executable = executable

    def describe(self) -> Endpoint:
        """Returns the endpoint without its base URL; its digest covers the revision, or all files of a folder.

        It also covers the added request fields.
        """
        digest = self._config.revision or ""
        if self._folder.is_dir():
            files = sorted(path for path in self._folder.rglob("*") if path.is_file())
            digest = ids.digest([[str(path.relative_to(self._folder)), digest_file(path)] for path in files])
        model = self._get_served_name()
        digest = make_model_digest(self._config, model, digest)
        return Endpoint(self._config.endpoint or "vllm", base_url="", model=model, model_digest=digest)

    @contextmanager
    def serve(self) -> Iterator[Endpoint]:
        """Runs a server for the duration of the block, or until this process ends; yields its endpoint when healthy.

        Raises:
            ConfigError: vLLM is not installed.
            BackendError: the port is in use, or the server did not start or stopped; quotes the end of its log.
        """
        described = self.describe()
        port = find_free_port(self._config.port, NAME)
        remedy = "Check chat.model, its revision and the GPU's memory, then run again: completed answers are cached."
        server = ChildServer(NAME, self._make_command(port), os.environ, remedy)
        with server.run(lambda child: _wait_until_healthy(child, port)) as base_url:
            yield Endpoint(described.name, base_url, described.model, described.model_digest)

    def _get_served_name(self) -> str:
        """Returns the name by which requests name the model: the folder's name, or the name on the Hub."""
        return self._folder.resolve().name if self._folder.is_dir() else self._model

    def _make_command(self, port: int) -> list[str]:
        """Makes the command of vLLM's server, run by `guardian.py`, which stops it with this process."""
        guardian = [sys.executable, str(GUARDIAN), str(os.getpid())]
        options = ["--host", HOST, "--port", str(port), "--served-model-name", self._get_served_name()]
        if self._config.revision:
            options += ["--revision", self._config.revision]
        model = str(self._folder) if self._folder.is_dir() else self._model
        return [*guardian, str(self._find_executable()), "serve", model, *ALWAYS, *options, *self._config.serve_args]

    def _find_executable(self) -> Path:
        """Returns the path of `vllm`; raises ConfigError if its worker environment is not installed."""
        if self._executable is not None:
            return self._executable
        place = get_environment("vllm")
        if not place.is_installed():
            raise ConfigError("The chat engine 'vllm' is not installed.", "Type: kame backends install vllm")
        return place.get_python().with_name("vllm")


def _wait_until_healthy(child: Child, port: int) -> str:
    """Returns the base URL once `/health` answers.

    Raises:
        NotReady: the child has ended, or is not healthy within `START_LIMIT_S`.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy cannot reach our own address
    deadline_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline_s:
        if child.poll() is not None:
            raise NotReady("did not start")
        try:
            with opener.open(f"http://{HOST}:{port}/health", timeout=10):
                return f"http://{HOST}:{port}/v1"
        except OSError:
            time.sleep(LOOK_S)
    raise NotReady(f"was not healthy after {START_LIMIT_S:.0f} s")
