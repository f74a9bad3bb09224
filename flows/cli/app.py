"""The command `kame`. Large packages are imported inside the commands, so that `--help` is fast.

Exit codes: 0 success · 1 `check` found faults · 2 invalid option or configuration · 3 a source cannot be read ·
4 a back-end is not installed or not available · 5 a file cannot be written or is damaged · 6 not a dataset
or training run · 7 the budget is used up · 8 the training loss is not a finite number · 130 interrupted.
"""

import signal
from pathlib import Path
from typing import Annotated

import typer

from flows.cli import (
    automation,
    backends,
    checkpoint,
    codec,
    config,
    dashboard,
    encode,
    export,
    llm,
    oracle,
    plan,
    publish,
    recordings,
    refresh,
    serve,
    speech,
    talk,
    text,
    train,
    up,
)
from flows.cli.evaluate.app import app as evaluate
from flows.cli.field_help import CommandApp
from flows.cli.terminal import AsJson, Folder, print_json, report_errors

app = CommandApp(
    name="kame",
    help="Make KAME speech-to-speech front-ends: make spoken dialogues with oracles (text of a language model for the "
    "front-end) from question sets, train, evaluate and serve.",
    epilog="Exit codes: 0 success, 1 check found faults, 2 invalid option or configuration, 3 source cannot be read, "
    "4 back-end not installed or not available, 5 file cannot be written or is damaged, 6 not a dataset or training "
    "run, 7 budget used up, 8 training loss is not a finite number, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command(epilog="Example:\nkame refresh --source gsm8k --limit 100 --out data/gsm8k")(refresh.refresh)
app.command()(refresh.preview)
app.command()(plan.plan)
app.command("bench")(plan.measure_rates)
app.command("recordings")(recordings.refresh_recordings)
app.command()(encode.encode)
app.command("speech", epilog="Example:\nkame speech --source gsm8k --hours 1 --out data/speech")(speech.make_speech)
app.command(epilog="Example:\nkame train data/gsm8k --preset nano --max-steps 5000 --out runs/nano")(train.train)
app.command(epilog="Examples:\nkame serve\nkame serve checkpoints/nano-nano-5000 --voice synthesised")(serve.serve)
app.command(epilog='Examples:\nkame talk --say "What color is the sky?"\nkame talk --mic --url http://127.0.0.1:8998')(
    talk.talk
)
app.command()(publish.publish)
app.command("up")(up.start_all)
app.command("dashboard")(dashboard.serve_dashboard)
app.add_typer(automation.app, name="automation")
app.add_typer(evaluate, name="evaluate")
app.add_typer(text.app, name="text")
app.add_typer(codec.app, name="codec")
app.add_typer(checkpoint.app, name="checkpoint")
app.add_typer(config.app, name="config")
app.add_typer(export.app, name="export")
app.add_typer(backends.app, name="backends")
app.add_typer(llm.app, name="llm")
app.add_typer(oracle.app, name="oracle")


@app.command()
def inspect(
    folder: Annotated[str, typer.Argument(help="Folder of a dataset, or hf://datasets/owner/name on the Hub.")],
    dialogue: Annotated[
        str | None, typer.Option("--dialogue", help="Id of the dialogue to show. Default: the first.")
    ] = None,
    wav: Annotated[
        Path | None, typer.Option("--wav", help="WAV file that the audio of that dialogue is written to.")
    ] = None,
    is_opened: Annotated[
        bool,
        typer.Option(
            "--open",
            help="Open the dataset, or the dialogue given by --dialogue, in a web browser; Ctrl-C stops the server.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the figures of a dataset, and one dialogue as text: its words with their times, and its oracle events."""
    with report_errors(as_json, how_to_resume=""):
        from data_schemas.errors import ConfigError
        from data_schemas.reader import DatasetReader, dump_dialogue
        from flows.cli import show
        from pipelines.figures import collect_figures

        if is_opened and (as_json or wav is not None):
            raise ConfigError(
                "--open shows a page, so it cannot be combined with --wav or --json.",
                "Omit --open, or run the command once with it and once without.",
            )
        reader = DatasetReader(folder, in_place=not is_opened)
        if is_opened:
            _open_page(Path(reader.store.root), dialogue)
            return
        row, oracle = reader.read_dialogue(dialogue)
        if wav is not None:
            from pipelines.audio import save_wav

            save_wav(row.flac, wav)
        if as_json:
            print_json({"counts": reader.manifest.counts.model_dump(), **dump_dialogue(row, oracle)})
            return
        console = show.open_console()
        console.print(show.render_figures(collect_figures(reader)), show.render_dialogue(row, oracle))
        if wav is not None:
            console.print(f"Listen: {wav} (left: assistant, right: user)")


def _open_page(folder: Path, dialogue: str | None) -> None:
    """Serves the page of a dataset, or of one of its dialogues, and opens it in a web browser, until Ctrl-C."""
    import webbrowser
    from urllib.parse import quote

    def open_when_ready(url: str) -> None:
        page = f"{url}datasets/{quote(folder.resolve().name)}{f'/dialogues/{quote(dialogue)}' if dialogue else ''}"
        typer.echo(page)
        webbrowser.open(page)

    dashboard.serve_pages([folder], "127.0.0.1", 0, None, open_when_ready)


@app.command()
def check(folder: Folder, as_json: AsJson = False) -> None:
    """Check every invariant of a dataset. If there are faults, they are shown in a table and the exit code is 1."""
    with report_errors(as_json):
        from dataclasses import asdict

        from flows.cli import show
        from pipelines.quality.check import check_dataset

        checked = check_dataset(folder)
        faults = checked.faults
        if as_json:
            result = {"sound": not faults, "faults": [asdict(fault) for fault in faults]}
            print_json({**result, "n_not_remade": checked.n_not_remade})
        elif faults:
            show.open_console().print(show.render_faults(faults))
        else:
            show.open_console().print(f"{folder}: no faults found.")
        if checked.n_not_remade and not as_json:
            show.open_console().print(
                f"Not checked: whether the prompts of hint level 0 held no part of the answer, in "
                f"{checked.n_not_remade} oracle rows. Their prompt set is neither in the dataset nor built in."
            )
        if faults:
            raise typer.Exit(1)


def _show_version(is_asked: bool) -> None:
    """Prints the installed version and exits, with code 1 if none is installed; does nothing without the option."""
    if not is_asked:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        typer.echo(f"kame-pipeline {version('kame-pipeline')}")
    except PackageNotFoundError:
        typer.echo("kame: this checkout is not installed, so it has no version. Run: make install", err=True)
        raise typer.Exit(1) from None
    raise typer.Exit


@app.callback()
def _accept_options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the installed version and exit."),
    ] = False,
) -> None:
    """Takes the options of `kame` itself."""


def main() -> None:
    """Entry point of the command `kame`."""
    signal.signal(signal.SIGTERM, _interrupt)
    app()


def _interrupt(signal_number: int, frame: object) -> None:
    """Handles SIGTERM as Ctrl-C."""
    raise KeyboardInterrupt  # stops started processes, as Ctrl-C does
