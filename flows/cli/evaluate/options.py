"""What the commands share that call a server: their options, and the configuration that these make."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from data_schemas.config.calls import CallsConfig

Checkpoint = Annotated[
    str | None,
    typer.Argument(help="Folder of a checkpoint, or owner/name on the Hub; mode cascade alone needs none."),
]
Modes = Annotated[str | None, typer.Option("--modes", help="Of direct, tandem, cascade, with commas.")]
DelaysS = Annotated[
    list[float],
    typer.Option(
        "--delay-s", min=0, help="How long the chat model takes, seconds, in place of the measured time; repeatable."
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Seed of the sampling.")]
JudgeUrl = Annotated[
    str | None,
    typer.Option("--judge-url", help="The judge's OpenAI-compatible base URL with /v1; the key: KAME_LLM_API_KEY."),
]
JudgeModel = Annotated[str | None, typer.Option("--judge-model", help="Model at that URL, or a GGUF file without one.")]
JudgeProvider = Annotated[
    str | None, typer.Option("--judge-provider", help="As --llm-provider, of the judge: openai, anthropic, google, …")
]
Settings = Annotated[
    list[str], typer.Option("--set", help="Any setting, e.g. n_sounds=9 or serving.sampling.temp_text=0.3.")
]

_Config = TypeVar("_Config", bound="CallsConfig")


def build_calls(
    model: "type[_Config]",
    file: Path | None,
    server: Mapping[str, Any],
    judge: tuple[str | None, str | None, str | None],
    modes: str | None,
    delays_s: Sequence[float],
    typed: Mapping[str, Any],
    settings: Sequence[str],
) -> _Config:
    """The configuration of an evaluation that calls a server.

    Args:
        file: YAML of the server's settings.
        server: its settings as typed, by dotted name, `checkpoint` among them; None: not typed.
        judge: URL, model and provider of the judge.
        typed: all other settings of the evaluation, likewise.
        settings: as typed behind --set.

    Raises:
        ConfigError: unreadable YAML, or a value out of bounds, each with its name.
    """
    from data_schemas.config.serving import NO_CHECKPOINT
    from flows.cli.serve import build_serve_config
    from flows.settings import build, chat_settings, parse_settings, read_yaml

    checkpoint = server.get("checkpoint") or (None if file is None else read_yaml(file).get("checkpoint"))
    serving = build_serve_config(file, {**server, "checkpoint": checkpoint or NO_CHECKPOINT})
    return build(
        model,
        {"serving": serving.model_dump(exclude_unset=True)},
        {
            "modes": None if modes is None else [each.strip() for each in modes.split(",")],
            "delays_s": list(delays_s) or None,
            **chat_settings("judge.chat", *judge),
            **typed,
        },
        parse_settings(settings),
    )
