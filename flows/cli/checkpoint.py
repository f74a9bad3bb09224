"""`kame checkpoint`: exports the weights of a training run, and describes a checkpoint."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.field_help import CommandApp, make_field_option
from flows.cli.terminal import AsJson, CodecOptions, print_json, report_errors

app = CommandApp(help="Export the weights of a training run, and describe a checkpoint.", no_args_is_help=True)


@app.command(epilog="Example:\nkame checkpoint export runs/nano checkpoints/nano")
def export(
    run: Annotated[
        str, typer.Argument(help="Folder of a training run; if it has several seeds, the first is exported.")
    ],
    out: Annotated[str, typer.Argument(help="Folder to write; it must not exist.")],
    codec: Annotated[
        str | None, typer.Option("--codec", help="Codec back-end, or none. Default: the codec of the token rows.")
    ] = None,
    codec_path: Annotated[str | None, typer.Option("--codec-path", help="Weights file or folder of the codec.")] = None,
    codec_option: CodecOptions = [],  # noqa: B006
    tokenizer: Annotated[
        str | None, typer.Option("--tokenizer", help="SentencePiece model. Default: the one of the run.")
    ] = None,
    which: Annotated[
        Literal["best", "last"],
        typer.Option("--which", help="Weights to export: the best ones (by keep.best_by), or those of the last step."),
    ] = "best",
    dtype: Annotated[
        Literal["float32", "bfloat16"], typer.Option("--dtype", help="Data type of the weights.")
    ] = "float32",
    settings: Annotated[
        list[str],
        typer.Option(
            "--set",
            help="Sampling setting for servers and evaluations, such as sampling.temp_text=0.5. Can be repeated.",
        ),
    ] = [],  # noqa: B006
    voice: Annotated[
        Literal["decoded", "synthesised"],
        make_field_option("--voice", "data_schemas.config.front_end:FrontEndConfig.voice"),
    ] = "decoded",
    as_json: AsJson = False,
) -> None:
    """Export a training run as a checkpoint: weights with merged adapters, codec, tokenizer, metadata and model card.

    The metadata is in kame.json. Kyutai's moshi package can load the checkpoint too.
    """
    with report_errors(as_json):
        import torch

        from data_schemas.config.model import SamplingConfig
        from flows.settings import build, parse_settings, strip_section
        from kame_model.checkpoint.export import export_run, find_codec
        from kame_model.train.run_folder import FoundRun, find_run

        found = find_run(run) or FoundRun(Path(run))  # the export reports what is missing in it
        if found.seed is not None:
            typer.echo(f"kame: exporting {found}", err=True)
        name, options = find_codec(found.folder) if codec is None else (codec, {})
        if codec_path is not None or codec_option:  # not those of the token rows
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
            typer.echo(f"{out}: {facts.preset}, {facts.training.step} steps; model card: {out}/README.md")


@app.command()
def show(
    checkpoint: Annotated[str, typer.Argument(help="Folder of a checkpoint, or owner/name on the Hugging Face Hub.")],
    as_json: AsJson = False,
) -> None:
    """Describe a checkpoint: one of this project, KAME's release or Moshi's."""
    with report_errors(as_json):
        from kame_model.checkpoint.summary import summarise

        summary = summarise(checkpoint)
        if as_json:
            print_json(summary.to_json())
            return
        from flows.cli import show as shown

        console = shown.open_console()
        console.print(shown.make_table(summary.name, ("", ""), summary.format_rows()))
        head, figures = summary.format_figures()
        if figures:
            console.print(shown.make_table(summary.validated, head, figures))
        if free := summary.format_free_running():
            title = "Recall on held-out dialogues with the right oracle, with 95 % confidence intervals"
            console.print(shown.make_table(title, ("", "share"), free))
