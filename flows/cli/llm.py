"""`kame llm`: serves a chat model on this machine until it is interrupted."""

import contextlib
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

import typer

from flows.cli.field_help import CommandApp
from flows.cli.terminal import AsJson, print_json, report_errors

if TYPE_CHECKING:
    from backends.chat.protocol import ChatEngine
    from data_schemas.config import ChatConfig

app = CommandApp(help="Serve a chat model on this machine.", no_args_is_help=True)

N_SLOTS = 4
"""Default number of requests that the server answers at the same time."""
CHECK_INTERVAL_S = 2.0
"""Interval between two checks whether the server still runs, in seconds."""


@app.callback()
def _group() -> None:
    """Makes Typer treat the only command as a subcommand."""


@app.command()
def serve(
    model: Annotated[
        str | None,
        typer.Argument(
            help="vllm: name on the Hub, or a folder; llamacpp: GGUF file. Default for llamacpp: the embedded model."
        ),
    ] = None,
    engine: Annotated[
        Literal["llamacpp", "vllm"], typer.Option("--engine", help="Engine that serves the model.")
    ] = "llamacpp",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0: any free port.")] = 0,
    slots: Annotated[
        int | None,
        typer.Option(
            "--slots",
            min=1,
            max=64,
            help=f"llamacpp: number of requests answered at the same time. Default: {N_SLOTS}.",
        ),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option("--context", min=256, help="llamacpp: context length of each request, in tokens. Default: 2048."),
    ] = None,
    revision: Annotated[str | None, typer.Option("--revision", help="vllm: revision of the model on the Hub.")] = None,
    executable: Annotated[
        Path | None,
        typer.Option(
            "--executable", help="vllm: path to your own `vllm`, instead of the one in the worker environment."
        ),
    ] = None,
    serve_args: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- ARGS]", help="vllm: additional arguments for `vllm serve`, after --."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start a chat model's server with prefix caching, print its base URL when it is ready, and stop it on Ctrl-C."""
    with report_errors(as_json):
        from data_schemas.config import ChatConfig
        from flows.settings import validate_settings

        of_llamacpp = {"--slots": slots, "--context": context}
        of_vllm = {"--revision": revision, "--executable": executable, "-- ARGS": serve_args or None}
        _check_engine_options(engine, {"llamacpp": of_llamacpp, "vllm": of_vllm})
        settings = {
            "engine": engine,
            "model": model,
            "port": port,
            "n_slots": slots or N_SLOTS,
            "n_context": context,
            "revision": revision,
            "serve_args": serve_args or None,
        }
        config = validate_settings(ChatConfig, {name: each for name, each in settings.items() if each is not None})
        chosen = _make_engine(config, executable)
        typer.echo(
            f"kame: starting {engine} with {chosen.describe().model}; the first time, the model may be downloaded.",
            err=True,
        )
        _serve(chosen, as_json)


def _check_engine_options(engine: str, options: Mapping[str, Mapping[str, object]]) -> None:
    """Checks that no option of the other engine was given.

    Args:
        options: values by engine and option; None for an option that was not given.

    Raises:
        ConfigError: an option belongs to the other engine.
    """
    from data_schemas.errors import ConfigError

    typed = [(name, of) for of, own in options.items() for name, value in own.items() if value is not None]
    for name, of in typed:
        if of != engine:
            raise ConfigError(f"The engine {engine} has no option {name}.", f"Omit it, or use --engine {of}.")


def _make_engine(config: "ChatConfig", executable: Path | None) -> "ChatEngine":
    """Makes the engine of the configuration, or vLLM with the given executable."""
    from backends import registry

    if executable is not None:  # the registry requires the worker environment, which is not used here
        from backends.chat.vllm import VllmEngine

        return VllmEngine(config, executable)
    engine: ChatEngine = registry.load("chat", config.engine)(config)
    return engine


def _serve(engine: "ChatEngine", as_json: bool) -> None:
    """Prints the URL of the chat model's server when it is ready, and serves until Ctrl-C or SIGTERM.

    Raises:
        BackendError: the server did not start, or ended by itself.
    """
    from data_schemas.errors import BackendError

    with contextlib.suppress(KeyboardInterrupt), engine.serve() as endpoint:
        if as_json:
            print_json({"base_url": endpoint.base_url, "model": endpoint.model})
        else:
            typer.echo(endpoint.base_url)
            use = f"--llm-url {endpoint.base_url} --llm-model {endpoint.model}"
            typer.echo(f"kame: ready. Use it with {use}; Ctrl-C stops it.", err=True)
        while _is_listening(endpoint.base_url):
            time.sleep(CHECK_INTERVAL_S)
        raise BackendError(
            "The chat model's server ended by itself.", "Start it again, and check that the machine has enough memory."
        )


def _is_listening(base_url: str) -> bool:
    """Returns whether the port is open; a health request is not used, because a busy server answers it late."""
    place = urlsplit(base_url)
    with socket.socket() as probe:
        return probe.connect_ex((place.hostname, place.port)) == 0
