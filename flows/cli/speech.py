"""`kame speech`: makes hours of the assistant's voice as token rows, for pretraining."""

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.field_help import make_field_option
from flows.cli.refresh import Licences, Limit, Maps, Seed, SourceOptions, Sources, Workers
from flows.cli.terminal import AsJson, CodecOptions, print_json, report_errors

if TYPE_CHECKING:
    from data_schemas.config.speech_rows import SpeechRowsConfig
    from flows.runs.speech import SpeechResult


def make_speech(
    out: Annotated[str, make_field_option("--out", "data_schemas.config.speech_rows:SpeechRowsConfig.out")],
    hours: Annotated[
        float,
        make_field_option("--hours", "data_schemas.config.speech_rows:SpeechRowsConfig.hours"),
    ],
    source: Sources = [],  # noqa: B006
    column_map: Maps = [],  # noqa: B006
    source_option: SourceOptions = [],  # noqa: B006
    licence: Licences = [],  # noqa: B006
    limit: Limit = None,
    without: Annotated[
        list[str], typer.Option("--without", help="Dataset or token rows whose items are excluded. Can be repeated.")
    ] = [],  # noqa: B006
    tts: Annotated[str | None, make_field_option("--tts", "data_schemas.config:SpeechConfig.tts")] = None,
    voice: Annotated[str | None, make_field_option("--voice", "data_schemas.config:SpeechConfig.voice_a")] = None,
    tokenizer: Annotated[
        str | None, make_field_option("--tokenizer", "data_schemas.config.speech_rows:SpeechRowsConfig.tokenizer")
    ] = None,
    vocabulary: Annotated[
        int | None, make_field_option("--vocabulary", "data_schemas.config.speech_rows:SpeechRowsConfig.vocabulary")
    ] = None,
    codec: Annotated[
        str | None, typer.Option("--codec", help="Codec back-end; `kame backends` lists them. Default: codec2-neural.")
    ] = None,
    codec_path: Annotated[
        str | None,
        typer.Option("--codec-path", help="Folder of the codec. Default: codec2-neural is trained on the voice first."),
    ] = None,
    codec_option: CodecOptions = [],  # noqa: B006
    seed: Seed = None,
    workers: Workers = None,
    settings: Annotated[
        list[str],
        typer.Option(
            "--set",
            help="Any setting, such as shares.numbers=0.2 or speech.speed_max=1; see docs/speech.md. Can be repeated.",
        ),
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Synthesise sentences in the assistant's voice as token rows with word timings.

    Run the same command again to resume.
    """
    with report_errors(as_json):
        from data_schemas.config.speech_rows import SpeechRowsConfig
        from flows.settings import build, parse_settings, parse_sources

        options = {**parse_settings(codec_option, "--codec-option"), "path": codec_path}
        start = {"sources": parse_sources(source, column_map, licence, options=source_option), "without": without}
        typed = {
            "out": out,
            "hours": hours,
            "limit": limit,
            "seed": seed,
            "workers": workers,
            "speech.tts": tts,
            "speech.voice_a": voice,
            "tokenizer": tokenizer,
            "vocabulary": vocabulary,
            "codec": codec,
            **{f"codec_options.{name}": value for name, value in options.items()},
        }
        config = build(SpeechRowsConfig, start, typed, parse_settings(settings))
        _print_result(config, _run_with_bar(config, as_json), as_json)


def _run_with_bar(config: "SpeechRowsConfig", quiet: bool) -> "SpeechResult":
    """Makes the speech rows with a progress bar of hours, described by the current task."""
    from flows.cli.progress import show_hours
    from flows.runs.speech import run_speech
    from flows.runs.tasks import Task

    with show_hours(config.hours, quiet) as (describe, advance):

        def run_task(task: Task[object]) -> None:
            describe(task.name)
            task.run()

        return run_speech(config, advance, run_task)


def _print_result(config: "SpeechRowsConfig", made: "SpeechResult", as_json: bool) -> None:
    """Prints the size of the speech rows, and on standard error how many sentences were rejected and tokens cut off."""
    from data_schemas.units import FRAMES_PER_S

    counts = made.manifest.counts
    hours = counts.n_frames / FRAMES_PER_S / 3600
    if as_json:
        summary = {"out": config.out, "fingerprint": made.manifest.fingerprint, "hours": round(hours, 4)}
        print_json({**summary, "parts": made.n_parts, "refused": made.refused, **counts.model_dump()})
        return
    typer.echo(f"{config.out}: {counts.n_rows} rows in {made.n_parts} parts, {hours:.2f} hours of speech.")
    if made.refused:
        reasons = ", ".join(f"{reason} {n}" for reason, n in made.refused.most_common())
        typer.echo(
            f"kame: {made.refused.total()} sentences were rejected: {reasons}. They are listed in "
            f"{config.out}/rejects.",
            err=True,
        )
    if counts.n_cut_tokens:
        typer.echo(f"kame: {counts.n_cut_tokens} text tokens after the end of an utterance were cut off.", err=True)
