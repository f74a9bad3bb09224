"""Options shared by the evaluation commands that call a server, and how such a command runs."""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.field_help import make_field_option
from flows.cli.refresh import LlmModel, LlmProvider, LlmUrl
from flows.cli.serve import MODES, Device, ServeFile, SystemPrompt
from flows.cli.terminal import AsJson, print_json, report_errors

if TYPE_CHECKING:
    from data_schemas.config.evaluate import Kind

Own = Callable[..., dict[str, Any]]

Anew = Annotated[
    bool,
    typer.Option(
        "--anew", help="Overwrite another evaluation's results in --out; without this option they are an error."
    ),
]
Again = Annotated[
    bool,
    typer.Option(
        "--again",
        help="Allow another evaluation of the same weights on the test split. To overwrite results, use --anew.",
    ),
]
Register = Annotated[
    str | None,
    typer.Option(
        "--register",
        help="Checkpoint registry (a folder of checkpoints) in which evaluations on the test split are recorded. "
        "Default: the folder that the checkpoint is in.",
    ),
]

Tts = Annotated[
    str | None,
    typer.Option(
        "--tts", help="Text-to-speech engine for questions without audio; `kame backends` lists them. Default: kokoro."
    ),
]


def make_server_command(
    kind: "Kind", format_row: Callable[[Mapping[str, Any]], str | None]
) -> Callable[[Own], Callable[..., None]]:
    """Returns a decorator that makes a command of a function with the options of one kind of evaluation.

    The function returns its options as settings of the kind by dotted name (None for those not given), and `register`
    and `again` if it has them. The command also has the options of `_evaluate`; it evaluates and prints the figures.

    Args:
        format_row: formats the line that is printed for one row of figures, or returns None for no line.
    """

    def decorate(own: Own) -> Callable[..., None]:
        """Makes the command, whose signature has the options of both functions."""
        mine = signature(own).parameters
        shared = [each for each in signature(_evaluate).parameters.values() if each.kind is Parameter.KEYWORD_ONLY]

        @wraps(own)
        def run_command(**typed: Any) -> None:
            own_options = {name: typed.pop(name) for name in mine}
            _evaluate(kind, lambda: own(**own_options), format_row, **typed)

        first = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in mine.values()]
        rest = [each.replace(default=kind) if each.name == "out" else each for each in shared]
        run_command.__signature__ = Signature([*first, *rest])  # type: ignore[attr-defined]
        return run_command

    return decorate


def _evaluate(
    kind: "Kind",
    own: Callable[[], dict[str, Any]],
    format_row: Callable[[Mapping[str, Any]], str | None],
    *,
    checkpoint: Annotated[
        str | None,
        typer.Argument(
            help="Folder of a checkpoint, or owner/name on the Hub. Not needed if the only mode is cascade."
        ),
    ] = None,
    out: Annotated[str, typer.Option("--out", help="Folder of the report; finished calls in it are reused.")],
    modes: Annotated[
        str | None,
        typer.Option(
            "--modes", help=f"Modes to evaluate, separated by commas: {MODES}. Default: all; for duplex, tandem."
        ),
    ] = None,
    delay_s: Annotated[
        list[float],
        typer.Option(
            "--delay-s",
            min=0,
            help="Simulated delay of the chat model in seconds, instead of the measured one. Can be repeated.",
        ),
    ] = [],  # noqa: B006
    seed: Annotated[
        int | None, make_field_option("--seed", "data_schemas.config.calls:CallsConfig.seed", min=0)
    ] = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    prompt: SystemPrompt = None,
    judge_url: Annotated[
        str | None,
        typer.Option(
            "--judge-url",
            help="OpenAI-compatible base URL of the judge, with /v1. The API key is read from KAME_LLM_API_KEY; choose "
            "another variable with --set judge.chat.api_key_env=NAME.",
        ),
    ] = None,
    judge_model: Annotated[
        str | None,
        typer.Option("--judge-model", help="Name of the judge model at that URL; without a URL, path to a GGUF file."),
    ] = None,
    judge_provider: Annotated[
        str | None,
        typer.Option("--judge-provider", help="Provider of the judge: openai, anthropic, google, …"),
    ] = None,
    asr: Annotated[
        str | None,
        typer.Option(
            "--asr",
            help="Speech recogniser that transcribes the answers; `kame backends` lists them. Default: moonshine.",
        ),
    ] = None,
    device: Device = None,
    config: ServeFile = None,
    settings: Annotated[
        list[str],
        typer.Option(
            "--set",
            help="Any setting of the evaluation, such as n_sounds=9 or serving.sampling.temp_text=0.3. Can be "
            "repeated.",
        ),
    ] = [],  # noqa: B006
    anew: Anew = False,
    as_json: AsJson = False,
) -> None:
    """Evaluates by calling a server in this process, and prints the figures; the keyword arguments are options.

    Args:
        own: returns the settings of the kind, as the function that `make_server_command` decorates.
    """
    with report_errors(as_json):
        from data_schemas.config.serving import NO_CHECKPOINT
        from flows.cli.progress import show_count
        from flows.cli.serve import build_serve_config, make_back_end_settings
        from flows.runs.evaluate import evaluate_served
        from flows.settings import make_chat_settings, read_yaml
        from kame_model.evaluate.report.folder import REPORT

        named = checkpoint or (None if config is None else read_yaml(config).get("checkpoint")) or NO_CHECKPOINT
        chat = make_back_end_settings(llm_url, llm_model, llm_provider, prompt)
        own_settings = own()
        looks = {name: own_settings.pop(name) for name in ("register", "again") if name in own_settings}
        typed = {
            "modes": None if modes is None else [each.strip() for each in modes.split(",")],
            "delays_s": delay_s or None,
            "seed": seed,
            "recogniser": asr,
            **make_chat_settings("judge.chat", judge_url, judge_model, judge_provider),
            **own_settings,
        }
        serving = build_serve_config(config, {"checkpoint": named, "device": device, **chat})
        counted = partial(show_count, quiet=as_json)
        rows = evaluate_served(kind, serving, typed, settings, out, counted, anew=anew, **looks)
        if as_json:
            print_json(rows)
            return
        for line in filter(None, map(format_row, rows)):
            typer.echo(line)
        typer.echo(f"Report: {out}/{REPORT}")


def describe_condition(row: Mapping[str, Any]) -> str:
    """Returns the mode, delay and category of a row of figures as text; parts that the row lacks are left out."""
    from kame_model.evaluate.calls.run import get_condition

    return ", ".join(filter(None, [get_condition(row).title, row.get("category")]))
