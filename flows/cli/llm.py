"""`kame llm`: a chat model on this machine, for as long as the command runs."""

import contextlib
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

import typer

from flows.cli.terminal import AsJson, print_json, speaking_plainly

if TYPE_CHECKING:
    from backends.chat.protocol import ChatEngine
    from data_schemas.config import ChatConfig

app = typer.Typer(help="Serve a chat model on this machine.", no_args_is_help=True)

N_SLOTS = 4
"""Requests that a server of this command answers at once, unless it is told otherwise."""
LOOK_S = 2.0
"""Between two looks whether the server still lives, seconds."""


@app.callback()
def _group() -> None:
    """Keeps a lone sub-command a sub-command."""


@app.command()
def serve(
    model: Annotated[
        str | None, typer.Argument(help="vllm: a name on the Hub or a folder; llamacpp: a GGUF file, or ours without.")
    ] = None,
    engine: Annotated[Literal["llamacpp", "vllm"], typer.Option("--engine", help="What serves it.")] = "llamacpp",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = 0,
    slots: Annotated[
        int | None, typer.Option("--slots", min=1, max=64, help=f"llamacpp: requests answered at once ({N_SLOTS}).")
    ] = None,
    context: Annotated[
        int | None, typer.Option("--context", min=256, help="llamacpp: tokens of one slot's context (2048).")
    ] = None,
    revision: Annotated[str | None, typer.Option("--revision", help="vllm: revision of the model on the Hub.")] = None,
    executable: Annotated[
        Path | None, typer.Option("--executable", help="vllm: a `vllm` of your own, not the worker environment's.")
    ] = None,
    serve_args: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGS]", help="vllm: more arguments of its `serve`, behind --.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start a server with prefix caching, print its base URL when it is healthy, and stop it with this command."""
    with speaking_plainly(as_json):
        from data_schemas.config import ChatConfig

        of_llamacpp = {"--slots": slots, "--context": context}
        of_vllm = {"--revision": revision, "--executable": executable, "-- ARGS": serve_args or None}
        _refuse_those_of_another(engine, {"llamacpp": of_llamacpp, "vllm": of_vllm})
        config = ChatConfig(
            engine=engine,
            model=model,
            port=port,
            n_slots=slots or N_SLOTS,
            revision=revision,
            serve_args=serve_args or [],
        )
        if context is not None:
            config = config.model_copy(update={"n_context": context})
        chosen = _make_engine(config, executable)
        typer.echo(f"kame: starting {engine} with {chosen.describe().model}; the first time it may download.", err=True)
        _serve(chosen, as_json)


def _refuse_those_of_another(engine: str, options: Mapping[str, Mapping[str, object]]) -> None:
    """Refuses options that would do nothing.

    Args:
        options: by the engine they belong to and their names; None: not typed.

    Raises:
        ConfigError: one of those typed belongs to another engine.
    """
    from data_schemas.errors import ConfigError

    typed = [(name, of) for of, own in options.items() for name, value in own.items() if value is not None]
    for name, of in typed:
        if of != engine:
            raise ConfigError(f"{name} does nothing with the engine {engine}.", f"Leave it out, or say --engine {of}.")


def _make_engine(config: "ChatConfig", executable: Path | None) -> "ChatEngine":
    from backends import registry

    if executable is not None:  # not by the registry, which wants the worker environment that this does without
        from backends.chat.vllm import VllmEngine

        return VllmEngine(config, executable)
    engine: ChatEngine = registry.load("chat", config.engine)(config)
    return engine


def _serve(engine: "ChatEngine", as_json: bool) -> None:
    """Serves until we are told to stop (Ctrl-C, SIGTERM) or the server has ended.

    Raises:
        BackendError: it did not start, or it ended by itself.
    """
    from data_schemas.errors import BackendError

    with contextlib.suppress(KeyboardInterrupt), engine.serve() as endpoint:
        if as_json:
            print_json({"base_url": endpoint.base_url, "model": endpoint.model})
        else:
            typer.echo(endpoint.base_url)
            use = f"--llm-url {endpoint.base_url} --llm-model {endpoint.model}"
            typer.echo(f"kame: ready for {use}; Ctrl-C stops it.", err=True)
        while _is_listening(endpoint.base_url):
            time.sleep(LOOK_S)
        raise BackendError("The server ended by itself.")


def _is_listening(base_url: str) -> bool:
    """Whether somebody holds the port: a busy server answers late, and must not be stopped for that."""
    place = urlsplit(base_url)
    with socket.socket() as probe:
        return probe.connect_ex((place.hostname, place.port)) == 0
