"""`kame oracle`: measures the quality of a dataset's oracles."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.field_help import CommandApp
from flows.cli.terminal import AsJson, Folder, print_json, report_errors

if TYPE_CHECKING:
    from backends.chat.embeddings import EmbeddingModel

EmbeddingsUrl = Annotated[
    str | None,
    typer.Option(
        "--embeddings-url",
        help="Base URL of an embedding model, with /v1, to measure similarity as well. The API key is read from "
        "KAME_LLM_API_KEY.",
    ),
]
app = CommandApp(help="Measure the quality of a dataset's oracles.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Makes Typer treat the only command as a subcommand."""


@app.command()
def report(
    folder: Folder,
    version: Annotated[
        str | None, typer.Option("--version", help="Version of the oracles. Default: the dataset's default.")
    ] = None,
    embeddings_url: EmbeddingsUrl = None,
    embeddings_model: Annotated[
        str | None, typer.Option("--embeddings-model", help="Name of the embedding model at that URL.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the similarity of oracles to the true answer, by hint level and source; write report/ and the card."""
    with report_errors(as_json):
        from data_schemas.reader import DatasetReader
        from pipelines.figures import collect_figures
        from pipelines.oracle.plot import write_report
        from pipelines.oracle.report import measure_ladder
        from pipelines.run.publish import CARD, write_card

        reader = DatasetReader(folder, version)
        measured = measure_ladder(reader, _connect_embeddings(embeddings_url, embeddings_model))
        written = [*write_report(reader.store, measured), CARD]
        write_card(reader.store, reader.manifest, collect_figures(DatasetReader(folder)))
        if as_json:
            print_json({**measured.to_json(), "files": written})
        else:
            _print_report(measured.to_json(), written)


def _connect_embeddings(url: str | None, model: str | None) -> "EmbeddingModel | None":
    """Makes a client of the embedding model; None if neither URL nor model is given.

    Raises:
        ConfigError: only one of them is given, or the URL is invalid.
    """
    from backends.chat.embeddings import EmbeddingModel
    from data_schemas.errors import ConfigError

    if url is None and model is None:
        return None
    if url is None or model is None:
        raise ConfigError("Embeddings need a URL and a model.", "Set both --embeddings-url and --embeddings-model.")
    return EmbeddingModel(url, model)


def _print_report(report: Mapping[str, Any], written: Sequence[str]) -> None:
    """Prints a table for each group and source of the report, and the files that were written."""
    from flows.cli import show
    from pipelines.oracle.ladder_section import TITLES, make_header, make_table, summarise

    console = show.open_console()
    for group, more in TITLES.items():
        for source, figures in report[group].items():
            title = f"{source}{more}: {figures['n_items']} items, {figures['n_failed']} events failed"
            console.print(show.make_table(title, make_header(report), make_table(report, figures)))
            console.print("\n".join(summarise(report, figures)), "")
    console.print(f"Written: {', '.join(written)}")
