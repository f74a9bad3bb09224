"""`kame checkpoint`: a run's weights as a folder that others load, and what such a folder is."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.terminal import AsJson, CodecOptions, print_json, speaking_plainly

app = typer.Typer(help="Weights as a folder that others load.", no_args_is_help=True)


@app.command()
def export(
    run: Annotated[str, typer.Argument(help="Folder that `kame train` wrote; of several seeds the first is taken.")],
    out: Annotated[str, typer.Argument(help="Folder to write; it must not exist yet.")],
    codec: Annotated[
        str | None, typer.Option("--codec", help="Its name, or none; else what the rows were encoded with.")
    ] = None,
    codec_path: Annotated[str | None, typer.Option("--codec-path", help="The codec's weights or folder.")] = None,
    codec_option: CodecOptions = [],  # noqa: B006
    tokenizer: Annotated[str | None, typer.Option("--tokenizer", help="SentencePiece model; else the run's.")] = None,
    which: Annotated[Literal["best", "last"], typer.Option("--which", help="best (by keep.best_by) or last.")] = "best",
    dtype: Annotated[Literal["float32", "bfloat16"], typer.Option("--dtype", help="Type of the weights.")] = "float32",
    settings: Annotated[
        list[str],
        typer.Option("--set", help="How it is to be run, e.g. sampling.temp_text=0.5; servers and evaluations do so."),
    ] = [],  # noqa: B006
    voice: Annotated[
        Literal["decoded", "synthesised"],
        typer.Option("--voice", help="How servers let it be heard: its own sound, or its text by text-to-speech."),
    ] = "decoded",
    as_json: AsJson = False,
) -> None:
    """Write a run's front-end with codec, vocabulary, facts and card; adapters are merged. Stock moshi loads it too."""
    with speaking_plainly(as_json):
        import torch

        from data_schemas.config.model import SamplingConfig
        from flows.settings import build, parse_settings, strip_section
        from kame_model.checkpoint.export import export_run, find_codec
        from kame_model.train.run_folder import FoundRun, find_run

        found = find_run(run) or FoundRun(Path(run))  # of which the export says what it lacks
        if found.seed is not None:
            typer.echo(f"from {found}", err=True)
        name, options = find_codec(found.folder) if codec is None else (codec, {})
        if codec_path is not None or codec_option:  # named anew
            options = parse_settings(codec_option, "--codec-option")
            options |= {} if codec_path is None else {"path": codec_path}
        facts = export_run(
            found.folder,
            out,
            None if codec == "none" else (name, options),
            tokenizer,
            which,
            getattr(torch, dtype),
            build(SamplingConfig, {}, strip_section("sampling", parse_settings(settings))),
            voice,
        )
        if as_json:
            print_json({"out": out, "run": str(found.folder), "seed": found.seed, **facts.model_dump(mode="json")})
        else:
            typer.echo(f"{out}: {facts.preset}, {facts.training.step} steps; what it is: {out}/README.md")


@app.command()
def show(
    checkpoint: Annotated[str, typer.Argument(help="Folder of a checkpoint, or owner/name on the Hub.")],
    as_json: AsJson = False,
) -> None:
    """What a checkpoint is: ours, KAME's release or Moshi's."""
    with speaking_plainly(as_json):
        from kame_model.checkpoint.summary import summarise

        summary = summarise(checkpoint)
        if as_json:
            print_json(summary.as_json())
            return
        from flows.cli import show as shown

        shown.console().print(shown.table(summary.name, ("", ""), summary.rows()))
