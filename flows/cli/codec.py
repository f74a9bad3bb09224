"""`kame codec`: learns codebooks from the speech of a dataset, and measures the quality of a codec."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.field_help import CommandApp, make_field_option
from flows.cli.terminal import AsJson, CodecOptions, print_json, report_errors

if TYPE_CHECKING:
    from rich.console import Console

    from backends.codec.protocol import Codec
    from backends.engine import Samples
    from data_schemas.records import AudioDialogue
    from kame_model.codec.report import CodecReport, Listen, WordErrors

app = CommandApp(help="Learn codebooks from your own speech, and measure the quality of a codec.", no_args_is_help=True)

Datasets = Annotated[list[str], typer.Argument(help="Folders of datasets.", metavar="DATASET...")]
Asr = Annotated[
    str,
    typer.Option(
        "--asr",
        help="Speech recogniser that transcribes speech before and after the codec; `kame backends` lists them.",
    ),
]
NDialogues = Annotated[
    int, typer.Option("--dialogues", min=1, help="Maximum number of validation dialogues to measure on.")
]


@app.command()
def learn(
    datasets: Datasets,
    out: Annotated[str, typer.Option("--out", help="Folder to write.")],
    speakers: Annotated[
        str | None,
        make_field_option("--speakers", "data_schemas.config.codec:CodecLearnConfig.speakers"),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="Maximum amount of speech to learn from, in minutes. Default: 60.")
    ] = None,
    stages: Annotated[
        int | None,
        make_field_option("--stages", "data_schemas.config.codec:CodecLearnConfig.n_stages"),
    ] = None,
    card: Annotated[
        int | None,
        make_field_option("--card", "data_schemas.config.codec:CodecLearnConfig.card"),
    ] = None,
    seed: Annotated[int, make_field_option("--seed", "data_schemas.config.codec:CodecLearnConfig.seed")] = 0,
    asr: Asr = "moonshine",
    n_dialogues: NDialogues = 20,
    as_json: AsJson = False,
) -> None:
    """Learn codebooks for Codec 2 from the voices of datasets, in about a minute, and measure their quality.

    If the folder already has these codebooks, they are only measured. The report is written there, as report.json.
    """
    with report_errors(as_json):
        from backends.registry import build as build_backend
        from data_schemas.config.codec import CodecLearnConfig
        from data_schemas.reader import DatasetReader
        from flows.settings import build
        from kame_model.codec.learning import learn_codec
        from kame_model.codec.speech import read_held_out

        most_speech_s = None if minutes is None else 60 * minutes
        typed = {"speakers": speakers, "most_speech_s": most_speech_s, "n_stages": stages, "card": card, "seed": seed}
        config = build(CodecLearnConfig, {}, typed)
        readers = [DatasetReader(folder) for folder in datasets]
        record = learn_codec(readers, config, out)
        rows = read_held_out(readers, n_dialogues)
        if not rows:
            typer.echo(
                "kame: the codebooks are learnt, but not measured, because there are no validation dialogues.", err=True
            )
        codec = build_backend("codec", "codec2-learnt", {"path": out})
        _write_and_print(out, _measure(codec, rows, asr, as_json) if rows else None, record, as_json)


@app.command()
def report(
    codec: Annotated[
        str, typer.Argument(help="Name of a codec (`kame backends` lists them), or a folder of a learnt one.")
    ],
    datasets: Datasets,
    codec_option: CodecOptions = [],  # noqa: B006
    asr: Asr = "moonshine",
    n_dialogues: NDialogues = 20,
    as_json: AsJson = False,
) -> None:
    """Measure a codec: codebook usage, spectral distance and word error rate.

    For a codec in a folder the report is also written there, as report.json.
    """
    with report_errors(as_json):
        from backends.codec.learnt_files import find_learnt_codec
        from backends.registry import build, list_backends
        from data_schemas.reader import DatasetReader
        from flows.settings import parse_settings
        from kame_model.codec.speech import read_held_out

        is_name = codec in {each.name for each in list_backends("codec")}
        options = parse_settings(codec_option, "--codec-option")
        name, own = (codec, options) if is_name else (find_learnt_codec(codec), options | {"path": codec})
        built = build("codec", name, own)
        rows = read_held_out([DatasetReader(folder) for folder in datasets], n_dialogues)
        measured = _measure(built, rows, asr, as_json)
        _write_and_print(None if is_name else codec, measured, {}, as_json)


def _measure(codec: "Codec", rows: "list[AudioDialogue]", asr: str, quiet: bool) -> "CodecReport":
    """Measures a codec on dialogues with a progress bar."""
    from flows.cli.progress import show_count
    from kame_model.codec.report import measure_codec

    with show_count("measuring", len(rows), quiet) as advance:
        return measure_codec(codec, rows, _make_word_error_counter(asr), lambda: advance(1))


def _make_word_error_counter(asr: str) -> "Listen":
    """Returns a function that transcribes audio and counts word errors as the quality gate does.

    Numbers are compared by value, and homophones are equal.
    """
    from backends.registry import build
    from data_schemas.units import SAMPLE_RATE_HZ
    from kame_model.codec.report import HeardCounts
    from pipelines.quality.word_errors import compare_transcript
    from pipelines.speech.gate import pad_with_silence

    recogniser = build("asr", asr, {})

    def count_word_errors(samples: "Samples", said: str) -> HeardCounts:
        found = compare_transcript(said, recogniser.transcribe(pad_with_silence(samples), SAMPLE_RATE_HZ))
        return HeardCounts(found.n_words, found.n_word_errors, found.n_numbers, found.n_numbers - found.n_numbers_heard)

    return count_word_errors


def _write_and_print(folder: str | None, measured: "CodecReport | None", record: dict[str, Any], as_json: bool) -> None:
    """Writes the report of a codec to a folder, if there is one, and prints it.

    Args:
        measured: None if the codec was not measured.
        record: facts of learnt codebooks; empty if none were learnt.
    """
    from flows.cli import show
    from kame_model.codec.report import write_report

    written = write_report(folder, measured) if folder and measured else None
    if as_json:
        print_json({"report": measured and measured.to_json(), "learnt": record, "file": written})
        return
    console = show.open_console()
    if record:
        console.print(
            f"{folder}: codebooks of {record['card']} from {record['speech_s'] / 60:.1f} minutes of channels."
        )
    if measured:
        _print_report(console, measured)
    if written:
        console.print(f"Written: {written}")


def _print_report(console: "Console", measured: "CodecReport") -> None:
    """Prints the figures of a codec as tables."""
    from flows.cli import show

    books = [
        (index, f"{each.perplexity:.0f} of {measured.card}", f"{each.used_share:.0%}")
        for index, each in enumerate(measured.codebooks)
    ]
    console.print(show.make_table("Codebooks, frames with sound", ("codebook", "perplexity", "entries used"), books))
    head = ("speech of", "words", "WER of the original (95%)", "WER after the round trip (95%)")
    both = [(name, each, measured.wer_round_trip[name]) for name, each in measured.wer_original.items()]
    rates = [(name, before.n_words, _format_rate(before), _format_rate(after)) for name, before, after in both]
    console.print(show.make_table("What is still understood", head, rates))
    head = ("speech of", "numbers", "missed in the original", "missed after the round trip")
    missed = [
        (name, before.n_numbers, _format_share(before.numbers_missed), _format_share(after.numbers_missed))
        for name, before, after in both
    ]
    console.print(show.make_table("Numbers, each one however many words it has", head, missed))
    far, alike = measured.spectral, measured.silence_alike
    console.print(
        f"{measured.codec}: {measured.n_codebooks} codebooks of {measured.card}, {measured.bits_per_s:.0f} bit/s, on "
        f"{measured.n_dialogues} {measured.split} dialogues ({measured.audio_s / 60:.1f} minutes of channels).\n"
        f"Distances, natural logarithms: mel {far.log_mel:.3f}, magnitude {far.log_magnitude:.3f}; spectral "
        f"convergence {far.convergence:.3f}; waveform {far.l1:.4f}.\n"
        f"Frames of silence with the same codes: {'-' if alike is None else f'{alike:.0%}'}."
    )


def _format_share(share: float | None) -> str:
    """Formats a share in percent; `-` for None."""
    return "-" if share is None else f"{share:.1%}"


def _format_rate(rate: "WordErrors") -> str:
    """Formats a word error rate in percent with its confidence interval."""
    return f"{rate.wer:.1%} ({rate.low:.1%} to {rate.high:.1%})"
