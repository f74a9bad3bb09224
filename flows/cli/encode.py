"""`kame encode`: encodes the dialogues of a dataset to token rows."""

from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.field_help import make_field_option
from flows.cli.terminal import AsJson, CodecOptions, print_json, report_errors

if TYPE_CHECKING:
    from kame_model.encode.manifest import RowCounts


def encode(
    folder: Annotated[str, typer.Argument(help="Folder of a dataset, or hf://datasets/owner/name on the Hub.")],
    out: Annotated[str, make_field_option("--out", "data_schemas.config.encode:EncodeConfig.out")],
    tokenizer: Annotated[
        str, typer.Option("--tokenizer", help="SentencePiece model: a file, or hf://owner/repository/file on the Hub.")
    ],
    codec: Annotated[str, make_field_option("--codec", "data_schemas.config.encode:EncodeConfig.codec")] = "mimi",
    codec_path: Annotated[str | None, typer.Option("--codec-path", help="Weights file or folder of the codec.")] = None,
    codec_option: CodecOptions = [],  # noqa: B006
    device: Annotated[str | None, typer.Option("--device", help="cpu or cuda. Default: cuda if available.")] = None,
    oracle_version: Annotated[
        str | None,
        make_field_option("--oracle-version", "data_schemas.config.encode:EncodeConfig.oracle_version"),
    ] = None,
    workers: Annotated[
        int,
        make_field_option("--workers", "data_schemas.config.encode:EncodeConfig.workers", min=0, max=256),
    ] = 0,
    window_s: Annotated[
        float, make_field_option("--window-s", "data_schemas.config.encode:EncodeConfig.window_s", min=1)
    ] = 300.0,
    codes_from: Annotated[
        list[str],
        typer.Option(
            "--codes-from",
            help="Folder of token rows from which the codes of the same audio by the same codec are copied. Can be "
            "repeated.",
        ),
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Encode a dataset to token rows for training. Run the same command again to resume; unchanged rows are reused."""
    with report_errors(as_json):
        from data_schemas.config.encode import EncodeConfig
        from data_schemas.reader import DatasetReader
        from flows.cli.progress import show_count
        from flows.settings import parse_settings, validate_settings
        from kame_model.encode.run import encode_dataset

        given = {**parse_settings(codec_option, "--codec-option"), "path": codec_path, "device": device}
        settings = {
            "dataset": folder,
            "out": out,
            "oracle_version": oracle_version,
            "codec": codec,
            "codec_options": {name: value for name, value in given.items() if value is not None},
            "tokenizer": tokenizer,
            "workers": workers,
            "window_s": window_s,
            "codes_from": codes_from,
        }
        config = validate_settings(EncodeConfig, settings)
        n_dialogues = DatasetReader(folder).manifest.counts.dialogues
        with show_count("encoding", n_dialogues, quiet=as_json) as advance:
            manifest = encode_dataset(config, advance)
        if as_json:
            print_json({"out": out, "fingerprint": manifest.fingerprint, **manifest.counts.model_dump()})
        else:
            _print_counts(out, manifest.counts)


def _print_counts(out: str, counts: "RowCounts") -> None:
    """Prints the size of token rows, and on standard error what was skipped or cut off."""
    typer.echo(f"{out}: {counts.n_rows} rows, {counts.n_frames} frames, {counts.n_events} oracle events.")
    for n, what in (
        (counts.n_flagged, "flagged dialogues were skipped"),
        (counts.n_failed_events, "failed oracle events were skipped"),
        (counts.n_late_events, "oracle events after the last frame were dropped"),
        (counts.n_without_oracles, "rows have no oracles"),
        (counts.n_cut_tokens, "text tokens after the end of a dialogue were cut off"),
    ):
        if n:
            typer.echo(f"kame: {n} {what}.", err=True)
