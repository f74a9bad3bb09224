"""`kame serve`: runs a server until it is interrupted."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flows.cli.field_help import make_field_option
from flows.cli.refresh import LlmModel, LlmProvider, LlmUrl
from flows.cli.terminal import AsJson, print_json, report_errors

if TYPE_CHECKING:
    from data_schemas.config.serving import ServeConfig
    from flows.runs.serve import Serving
    from flows.runs.serve_group import ServingGroup

ServeFile = Annotated[
    Path | None, typer.Option("--config", help="YAML file of a server's settings; see docs/serving.md.")
]
ServeSettings = Annotated[
    list[str],
    typer.Option(
        "--set",
        help="Any setting of the server, such as cycle.interval_s=0.2 or back_ends.0.max_tokens=96. Can be repeated.",
    ),
]
Device = Annotated[str | None, make_field_option("--device", "data_schemas.config.serving:ServeConfig.device")]
Voice = Annotated[
    Literal["decoded", "synthesised"] | None,
    make_field_option("--voice", "data_schemas.config.serving:ServeConfig.voice"),
]
SystemPrompt = Annotated[
    str | None, typer.Option("--prompt", help="System prompt of the chat model: the name of a prompt, or a YAML file.")
]

Mode = Literal["tandem", "direct", "cascade"]
MODES = (
    "tandem (front-end with chat model), direct (front-end alone) or cascade (chat model's answers by text-to-speech)"
)
"""The modes, for help texts."""


def serve(
    checkpoint: Annotated[
        str | None,
        typer.Argument(
            help="Folder of a checkpoint, or owner/name on the Hub. Default: that in --config, else the included nano."
        ),
    ] = None,
    host: Annotated[str | None, make_field_option("--host", "data_schemas.config.serving:ServeConfig.host")] = None,
    port: Annotated[int | None, make_field_option("--port", "data_schemas.config.serving:ServeConfig.port")] = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    prompt: SystemPrompt = None,
    voice: Voice = None,
    mode: Annotated[
        Mode | None,
        typer.Option("--mode", help=f"Initial mode of a session: {MODES}. Default: tandem."),
    ] = None,
    processes: Annotated[
        int | None,
        make_field_option(
            "--processes",
            "data_schemas.config.serving:ServeConfig.processes",
            "See docs/serving_many.md.",
        ),
    ] = None,
    max_sessions: Annotated[
        int | None,
        make_field_option("--max-sessions", "data_schemas.config.serving:LimitsConfig.max_sessions"),
    ] = None,
    record: Annotated[
        str | None, make_field_option("--record", "data_schemas.config.serving:RecordConfig.folder")
    ] = None,
    device: Device = None,
    config: ServeFile = None,
    settings: ServeSettings = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Serve a front-end with any chat model as its back-end. Ctrl-C or SIGTERM lets running sessions finish first.

    It prints the address of a web page for talking. `kame talk` and Kyutai's clients of Moshi can use the same address.
    If KAME_SERVE_TOKEN is set, callers need that access token.
    """
    with report_errors(as_json):
        from flows.settings import parse_settings

        typed = {
            "checkpoint": checkpoint,
            "host": host,
            "port": port,
            "processes": processes,
            "device": device,
            "mode": mode,
            "voice": voice,
            "limits.max_sessions": max_sessions,
            "record.folder": record,
            **make_back_end_settings(llm_url, llm_model, llm_provider, prompt),
            **parse_settings(settings),
        }
        read = partial(build_serve_config, config, typed)
        built = read()
        if built.processes > 1:
            _serve_group(built, read, as_json)
        else:
            _serve(built, as_json)


def make_back_end_settings(
    url: str | None, model: str | None, provider: str | None, prompt: str | None
) -> dict[str, Any]:
    """Returns the settings of the first back-end by dotted name; None for an option that was not given."""
    from flows.settings import make_chat_settings

    return {**make_chat_settings("back_ends.0.chat", url, model, provider), "back_ends.0.prompt": prompt}


def build_serve_config(
    file: Path | None, typed: Mapping[str, Any], line: str = "kame serve CHECKPOINT"
) -> "ServeConfig":
    """Builds the configuration of a server from the YAML file and the options, which override it.

    If no checkpoint is named, the included one is used; if there is none, only mode cascade is possible.

    Args:
        typed: settings by dotted name; those that are None are ignored.
        line: command with a checkpoint, for the error message.

    Raises:
        ConfigError: the YAML cannot be read, a value is out of bounds, or there is no checkpoint.
    """
    from data_schemas.config.serving import ServeConfig
    from flows.settings import build, read_yaml

    written = {} if file is None else read_yaml(file)
    mode = typed.get("mode") or written.get("mode")
    named = typed.get("checkpoint") or written.get("checkpoint") or _choose_checkpoint(mode, line)
    return build(ServeConfig, {"back_ends": [{}]}, written, typed, {"checkpoint": named})


def _choose_checkpoint(mode: str | None, line: str) -> str:
    """Returns the included checkpoint, or for mode cascade `none` if there is none.

    Args:
        line: a command that names a checkpoint, for the error message.

    Raises:
        ConfigError: no checkpoint is included, and the mode needs one.
    """
    from data_schemas.config.serving import NO_CHECKPOINT
    from data_schemas.errors import ConfigError
    from flows.settings import find_shipped_checkpoint

    shipped = find_shipped_checkpoint()
    if shipped is None and mode != "cascade":
        raise ConfigError(
            "No checkpoint is given, and the included one (examples/checkpoints/nano) does not exist.",
            f"Run {line}, with a checkpoint of your own (`kame train DATASET --preset nano --out runs/nano` makes "
            "one) or "
            "SakanaAI/kame from the Hub; or use no front-end: --mode cascade.",
        )
    return shipped or NO_CHECKPOINT


def _serve(config: "ServeConfig", as_json: bool) -> None:
    """Runs a server in this process until it is interrupted."""
    import asyncio

    from flows.runs.serve import run

    def on_ready(running: "Serving") -> None:
        _print_ready(config, running.url, as_json)

    def on_draining(running: "Serving") -> None:
        _print_draining(config, len(running.server.sessions))

    typer.echo(f"kame: {describe_loading(config)} ...", err=True)
    asyncio.run(run(config, on_ready, on_draining))


def _serve_group(config: "ServeConfig", read_again: Callable[[], "ServeConfig"], as_json: bool) -> None:
    """Runs a server of several processes until it is interrupted; SIGHUP restarts them with `read_again()`."""
    import asyncio

    from flows.runs.serve_group import run_group

    def on_ready(running: "ServingGroup") -> None:
        _print_ready(config, running.url, as_json)

    def on_draining(running: "ServingGroup") -> None:
        _print_draining(config, running.group.n_sessions)

    typer.echo(f"kame: {describe_loading(config)} in {config.processes} processes ...", err=True)
    asyncio.run(run_group(config, read_again, on_ready, on_draining))


def _print_ready(config: "ServeConfig", url: str, as_json: bool) -> None:
    """Prints the URL of a server that is ready, and on standard error notes on its configuration."""
    if as_json:
        print_json({"url": url})
    else:
        typer.echo(url)
    _print_notes(config)


def _print_draining(config: "ServeConfig", n_sessions: int) -> None:
    """Prints that running sessions may finish, if there are any."""
    if n_sessions:
        left = f"{n_sessions} running sessions may continue for up to {config.limits.drain_s:g} s"
        typer.echo(f"kame: new callers are refused; {left}. A second signal stops the server now.", err=True)


def describe_loading(config: "ServeConfig") -> str:
    """Describes what a server loads before it is ready."""
    from data_schemas.config.serving import NO_CHECKPOINT

    return "starting without a front-end" if config.checkpoint == NO_CHECKPOINT else f"loading {config.checkpoint}"


def _print_notes(config: "ServeConfig") -> None:
    """Prints notes on missing authentication, host names, TLS and recordings, and that the server is ready."""
    import os

    is_local = config.host in ("127.0.0.1", "::1", "localhost")
    if not is_local and not os.environ.get(config.care.token_env):
        typer.echo(
            f"note: no authentication: everyone who can reach {config.host} can talk. Set {config.care.token_env} to "
            "require a token.",
            err=True,
        )
    if not is_local and not config.care.origins and not config.care.hosts:
        typer.echo(
            "note: host names of this machine must be listed in care.hosts; its IP addresses always work.", err=True
        )
    if not is_local and config.care.certificate is None:
        typer.echo(
            "note: no TLS: browsers allow the microphone on pages of other machines only with TLS (care.certificate).",
            err=True,
        )
    if config.record.folder is not None:
        kept = f"in {config.record.folder} for {config.record.keep_days:g} days"
        what = (
            "recordings of callers who consent" if config.record.enabled else "nobody is recorded; existing recordings"
        )
        typer.echo(f"note: {what} are kept {kept}.", err=True)
    typer.echo("kame: ready; Ctrl-C stops it.", err=True)
