"""`kame serve`: a server for as long as the command runs."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.refresh import LlmModel, LlmProvider, LlmUrl
from flows.cli.terminal import AsJson, print_json, speaking_plainly

if TYPE_CHECKING:
    from data_schemas.config.serving import ServeConfig
    from flows.runs.serve import Serving
    from flows.runs.serve_group import ServingGroup

ServeFile = Annotated[Path | None, typer.Option("--config", help="YAML of a server's settings; docs/serving.md.")]
ServeSettings = Annotated[
    list[str], typer.Option("--set", help="Any setting, e.g. cycle.interval_s=0.2 or back_ends.0.max_tokens=96.")
]
Device = Annotated[str | None, typer.Option("--device", help="cpu, cuda, or auto: cuda where there is one.")]
Voice = Annotated[
    str | None,
    typer.Option(
        "--voice", help="decoded: its own sound; synthesised: its text by text-to-speech; else as the checkpoint says."
    ),
]
SystemPrompt = Annotated[
    str | None, typer.Option("--prompt", help="What the chat model is told: a prompt's name, or a YAML file.")
]


def serve(
    checkpoint: Annotated[
        str | None,
        typer.Argument(help="Folder of a checkpoint, or owner/name on the Hub; or in --config; else the one shipped."),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen at; 127.0.0.1 if empty.")] = None,
    port: Annotated[int | None, typer.Option("--port", help="8998 if empty; 0: any free one.")] = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    prompt: SystemPrompt = None,
    voice: Voice = None,
    mode: Annotated[str | None, typer.Option("--mode", help="tandem, direct or cascade.")] = None,
    processes: Annotated[
        int | None,
        typer.Option("--processes", help="That share the port, one a GPU; docs/serving_many.md. 1 if empty."),
    ] = None,
    max_sessions: Annotated[
        int | None, typer.Option("--max-sessions", help="Callers at once; 0: as many as fit.")
    ] = None,
    record: Annotated[
        str | None, typer.Option("--record", help="Folder for the sound and text of callers who agree to it.")
    ] = None,
    device: Device = None,
    config: ServeFile = None,
    settings: ServeSettings = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Let people talk with a front-end, any chat model behind it; Ctrl-C or SIGTERM lets them finish first.

    A page is at the URL that it prints; `kame talk` and Kyutai's clients of Moshi connect to it too. Where
    KAME_SERVE_TOKEN is set, callers need that token.
    """
    with speaking_plainly(as_json):
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
    """What was typed of the first chat model, as settings by dotted name; a URL or provider chooses who calls."""
    from flows.settings import make_chat_settings

    return {**make_chat_settings("back_ends.0.chat", url, model, provider), "back_ends.0.prompt": prompt}


def build_serve_config(
    file: Path | None, typed: Mapping[str, Any], line: str = "kame serve CHECKPOINT"
) -> "ServeConfig":
    """The configuration of a server: the YAML file, then what was typed.

    Where no checkpoint is named the one that is shipped is taken; where there is none, mode cascade does without.

    Args:
        typed: settings by dotted name; None: not typed.
        line: how a checkpoint is named, for the error.

    Raises:
        ConfigError: unreadable YAML, a value out of bounds, each with its name, or there is no checkpoint.
    """
    from data_schemas.config.serving import ServeConfig
    from flows.settings import build, read_yaml

    written = {} if file is None else read_yaml(file)
    mode = typed.get("mode") or written.get("mode")
    named = typed.get("checkpoint") or written.get("checkpoint") or _choose_checkpoint(mode, line)
    return build(ServeConfig, {"back_ends": [{}]}, written, typed, {"checkpoint": named})


def _choose_checkpoint(mode: str | None, line: str) -> str:
    """The checkpoint that is shipped, or for mode cascade none.

    Raises:
        ConfigError: none is shipped, and the mode wants one.
    """
    from data_schemas.config.serving import NO_CHECKPOINT
    from data_schemas.errors import ConfigError
    from flows.settings import shipped_checkpoint

    shipped = shipped_checkpoint()
    if shipped is None and mode != "cascade":
        raise ConfigError(
            "No checkpoint is named, and none is shipped in examples/checkpoints/nano.",
            f"Say {line}: one of your own (`kame train DATASET --preset nano --out runs/nano` makes it), or "
            "SakanaAI/kame on the Hub. Or talk without a front-end: --mode cascade.",
        )
    return shipped or NO_CHECKPOINT


def _serve(config: "ServeConfig", as_json: bool) -> None:
    """Serves until it is told to stop, and tells where it can be reached."""
    import asyncio

    from flows.runs.serve import run

    def on_ready(running: "Serving") -> None:
        _tell_ready(config, running.url, as_json)

    def on_draining(running: "Serving") -> None:
        _tell_draining(config, len(running.server.sessions))

    typer.echo(f"kame: {describe_loading(config)} ...", err=True)
    asyncio.run(run(config, on_ready, on_draining))


def _serve_group(config: "ServeConfig", read_again: Callable[[], "ServeConfig"], as_json: bool) -> None:
    """As `_serve`, from several processes."""
    import asyncio

    from flows.runs.serve_group import run_group

    def on_ready(running: "ServingGroup") -> None:
        _tell_ready(config, running.url, as_json)

    def on_draining(running: "ServingGroup") -> None:
        _tell_draining(config, running.group.n_sessions)

    typer.echo(f"kame: {describe_loading(config)} in {config.processes} processes ...", err=True)
    asyncio.run(run_group(config, read_again, on_ready, on_draining))


def _tell_ready(config: "ServeConfig", url: str, as_json: bool) -> None:
    if as_json:
        print_json({"url": url})
    else:
        typer.echo(url)
    _tell_who_may_come(config)


def _tell_draining(config: "ServeConfig", n_sessions: int) -> None:
    if n_sessions:
        left = f"{n_sessions} callers may finish within {config.limits.drain_s:g} s"
        typer.echo(f"kame: nobody is let in any more; {left}. Again, and it ends now.", err=True)


def describe_loading(config: "ServeConfig") -> str:
    """What a server does before it is ready."""
    from data_schemas.config.serving import NO_CHECKPOINT

    return "starting without a front-end" if config.checkpoint == NO_CHECKPOINT else f"loading {config.checkpoint}"


def _tell_who_may_come(config: "ServeConfig") -> None:
    """Says what its host should know before others do."""
    import os

    is_local = config.host in ("127.0.0.1", "::1", "localhost")
    if not is_local and not os.environ.get(config.care.token_env):
        typer.echo(
            f"note: whoever reaches {config.host} may talk; set {config.care.token_env} to ask for a token.", err=True
        )
    if not is_local and not config.care.origins and not config.care.hosts:
        typer.echo("note: names of this machine have to be listed in care.hosts; its addresses always work.", err=True)
    if not is_local and config.care.certificate is None:
        typer.echo("note: no TLS; browsers give pages from elsewhere no microphone without it.", err=True)
    if config.record.folder is not None:
        kept = f"{config.record.folder}, for {config.record.keep_days:g} days"
        who = "callers who agree are recorded" if config.record.enabled else "nobody is recorded; recordings stay"
        typer.echo(f"note: {who} in {kept}.", err=True)
    typer.echo("kame: ready; Ctrl-C stops it.", err=True)
