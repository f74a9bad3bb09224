"""`kame encode`: a dataset's dialogues as the model's tokens."""

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.terminal import AsJson, CodecOptions, print_json, speaking_plainly

if TYPE_CHECKING:
    from kame_model.encode.manifest import Counts


def encode(
    folder: Annotated[str, typer.Argument(help="Folder of a dataset, or hf://datasets/owner/name on the Hub.")],
    out: Annotated[str, typer.Option("--out", help="Folder of the token rows.")],
    tokenizer: Annotated[str, typer.Option("--tokenizer", help="SentencePiece model; hf://owner/repository/file.")],
    codec: Annotated[str, typer.Option("--codec", help="Its name; `kame backends` lists them.")] = "mimi",
    codec_path: Annotated[str | None, typer.Option("--codec-path", help="The codec's weights or folder.")] = None,
    codec_option: CodecOptions = [],  # noqa: B006
    device: Annotated[str | None, typer.Option("--device", help="cpu or cuda; else cuda where there is one.")] = None,
    oracle_version: Annotated[
        str | None, typer.Option("--oracle-version", help="Oracles to encode; else the dataset's own.")
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", min=0, max=256, help="Processes with a codec each; 0: one a core.")
    ] = 0,
    window_s: Annotated[
        float, typer.Option("--window-s", min=1, help="Sound a process is given at once, seconds.")
    ] = 300.0,
    codes_from: Annotated[
        list[str], typer.Option("--codes-from", help="Folder of token rows that has codes of this sound; repeatable.")
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Make token rows of a dataset. Running again resumes, and re-uses whatever has not changed."""
    with speaking_plainly(as_json):
        from data_schemas.config.encode import EncodeConfig
        from data_schemas.reader import DatasetReader
        from flows.cli.progress import show_count
        from flows.settings import parse_settings
        from kame_model.encode.run import encode_dataset

        given = {**parse_settings(codec_option, "--codec-option"), "path": codec_path, "device": device}
        config = EncodeConfig(
            dataset=folder,
            out=out,
            oracle_version=oracle_version,
            codec=codec,
            codec_options={name: value for name, value in given.items() if value is not None},
            tokenizer=tokenizer,
            workers=workers,
            window_s=window_s,
            codes_from=codes_from,
        )
        n_dialogues = DatasetReader(folder).manifest.counts.dialogues
        with show_count("encoding", n_dialogues, quiet=as_json) as advance:
            manifest = encode_dataset(config, advance)
        if as_json:
            print_json({"out": out, "fingerprint": manifest.fingerprint, **manifest.counts.model_dump()})
        else:
            _tell(out, manifest.counts)


def _tell(out: str, counts: "Counts") -> None:
    typer.echo(f"{out}: {counts.n_rows} rows, {counts.n_frames} frames, {counts.n_events} oracle events.")
    for n, what in (
        (counts.n_flagged, "flagged dialogues left out"),
        (counts.n_failed_events, "failed oracle events left out"),
        (counts.n_late_events, "oracle events after the last frame left out"),
        (counts.n_without_oracles, "rows without oracles"),
        (counts.n_cut_tokens, "text tokens cut off at a dialogue's end"),
    ):
        if n:
            typer.echo(f"kame: {n} {what}.", err=True)
