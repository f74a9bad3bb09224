"""`kame export`: converts a dataset to the formats of other training tools."""

from typing import Annotated

import typer

from flows.cli.field_help import CommandApp
from flows.cli.terminal import AsJson, Folder, print_json, report_errors

app = CommandApp(help="Convert a dataset to the format of another training tool.", no_args_is_help=True)


@app.command("moshi-finetune")
def export_to_moshi_finetune(
    folder: Folder,
    out: Annotated[str, typer.Argument(help="Folder to write; it must not exist.")],
    as_json: AsJson = False,
) -> None:
    """Export stereo WAV files, word alignments and lists by split, as moshi-finetune reads them."""
    with report_errors(as_json):
        from dataclasses import asdict

        from data_schemas.reader import DatasetReader
        from flows.cli.progress import show_count
        from pipelines.export.moshi_finetune import export_moshi_finetune

        n_dialogues = DatasetReader(folder).manifest.counts.dialogues
        with show_count("exporting", n_dialogues, quiet=as_json) as advance:
            exported = export_moshi_finetune(folder, out, lambda: advance(1))
        if as_json:
            print_json({"out": out, **asdict(exported)})
            return
        by_split = ", ".join(f"{n} {split}" for split, n in exported.dialogues.items())
        typer.echo(
            f"{out}: {by_split}; {exported.audio_s / 60:.1f} minutes; {exported.n_flagged} flagged dialogues skipped."
        )


@app.command("kame-finetune")
def export_to_kame_finetune(
    folder: Annotated[str, typer.Argument(help="Folder of token rows, made by `kame encode`.")],
    out: Annotated[str, typer.Argument(help="Folder to write; it must not exist.")],
    as_json: AsJson = False,
) -> None:
    """Export token rows to Parquet files, as kame_finetune reads them."""
    with report_errors(as_json):
        from dataclasses import asdict

        from flows.cli.progress import show_count
        from kame_model.encode.kame_finetune import export_kame_finetune
        from kame_model.encode.token_dataset import TokenDataset

        n_rows = len(TokenDataset(folder))
        with show_count("exporting", n_rows, quiet=as_json) as advance:
            exported = export_kame_finetune(folder, out, advance)
        if as_json:
            print_json({"out": out, **asdict(exported)})
            return
        by_split = ", ".join(f"{n} {split}" for split, n in exported.dialogues.items())
        typer.echo(f"{out}: {by_split}; {exported.n_frames} frames of 80 ms.")
