"""The command `kame`. Imports of weight happen inside the commands, so that `--help` answers at once.

Exit codes: 0 done · 1 `check` found faults · 2 wrong option or configuration · 3 a source cannot be read ·
4 a back-end is missing or gone · 5 a file cannot be written or is damaged · 6 no dataset ·
7 the budget is used up · 8 training met a loss that is no number · 130 interrupted.
"""

import signal
from pathlib import Path
from typing import Annotated

import typer

from flows import (
    backends_command,
    checkpoint_command,
    codec_command,
    config_command,
    encode_command,
    evaluate_command,
    export_command,
    llm_command,
    oracle_command,
    recordings_command,
    refresh_command,
    serve_command,
    talk_command,
    text_command,
    train_command,
)
from flows.terminal import AsJson, Folder, print_json, speaking_plainly

app = typer.Typer(
    name="kame",
    help="KAME front-ends: from question sets to spoken dialogues with oracles, and to a model that listens to them.",
    epilog="Exit codes: 0 done, 1 check found faults, 2 wrong option or configuration, 3 source unreadable, "
    "4 back-end missing or gone, 5 file not writable or damaged, 6 no dataset, 7 budget used up, "
    "8 a loss that is no number, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(refresh_command.refresh)
app.command()(refresh_command.preview)
app.command()(recordings_command.recordings)
app.command()(encode_command.encode)
app.command()(train_command.train)
app.command()(evaluate_command.evaluate)
app.command()(evaluate_command.seeds)
app.command()(serve_command.serve)
app.command()(talk_command.talk)
app.add_typer(text_command.app, name="text")
app.add_typer(codec_command.app, name="codec")
app.add_typer(checkpoint_command.app, name="checkpoint")
app.add_typer(config_command.app, name="config")
app.add_typer(export_command.app, name="export")
app.add_typer(backends_command.app, name="backends")
app.add_typer(llm_command.app, name="llm")
app.add_typer(oracle_command.app, name="oracle")


@app.command()
def inspect(
    folder: Folder,
    dialogue: Annotated[str | None, typer.Option("--dialogue", help="Dialogue to show; else the first.")] = None,
    wav: Annotated[Path | None, typer.Option("--wav", help="Write that dialogue's sound to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Counts of a dataset, and one dialogue as text: words on a time line, events beside it."""
    with speaking_plainly(as_json):
        from data_schemas.reader import DatasetReader
        from data_schemas.reader import as_json as told
        from flows import show
        from pipelines.figures import figures_of

        reader = DatasetReader(folder)
        row, oracle = reader.dialogue(dialogue)
        if wav is not None:
            from pipelines.audio import save_wav

            save_wav(row.flac, wav)
        if as_json:
            print_json({"counts": reader.manifest.counts.model_dump(), **told(row, oracle)})
            return
        console = show.console()
        console.print(show.figures(figures_of(reader)), show.dialogue(row, oracle))
        if wav is not None:
            console.print(f"Listen: {wav} (left: assistant, right: user)")


@app.command()
def check(folder: Folder, as_json: AsJson = False) -> None:
    """Look at every invariant of a dataset; exit code 1 and a table when something is wrong."""
    with speaking_plainly(as_json):
        from dataclasses import asdict

        from flows import show
        from pipelines.quality.check import examine

        checked = examine(folder)
        faults = checked.faults
        if as_json:
            told = {"sound": not faults, "faults": [asdict(fault) for fault in faults]}
            print_json({**told, "n_not_remade": checked.n_not_remade})
        elif faults:
            show.console().print(show.faults(faults))
        else:
            show.console().print(f"{folder}: nothing wrong.")
        if checked.n_not_remade and not as_json:
            show.console().print(
                f"Not checked: whether level 0 knew nothing, of {checked.n_not_remade} oracle rows; their prompts are "
                "neither in the dataset nor ours."
            )
        if faults:
            raise typer.Exit(1)


def main() -> None:
    """Entry point of the command `kame`."""
    signal.signal(signal.SIGTERM, _interrupt)
    app()


def _interrupt(signal_number: int, frame: object) -> None:
    raise KeyboardInterrupt  # so that what was started is stopped, as with Ctrl-C
