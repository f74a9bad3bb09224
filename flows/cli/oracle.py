"""`kame oracle`: what the oracles of a dataset are worth."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.terminal import AsJson, Folder, print_json, speaking_plainly

if TYPE_CHECKING:
    from backends.chat.embeddings import EmbeddingModel

EmbeddingsUrl = Annotated[
    str | None,
    typer.Option("--embeddings-url", help="Measures similarity too: base URL with /v1; the key: KAME_LLM_API_KEY."),
]
app = typer.Typer(help="Look at a dataset's oracles as a whole.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keeps a lone sub-command a sub-command."""


@app.command()
def report(
    folder: Folder,
    version: Annotated[str | None, typer.Option("--version", help="Oracle version; else the dataset's own.")] = None,
    embeddings_url: EmbeddingsUrl = None,
    embeddings_model: Annotated[str | None, typer.Option("--embeddings-model", help="Model at that URL.")] = None,
    as_json: AsJson = False,
) -> None:
    """The ladder measured: nearness to the true answer by level and source; page, plot and JSON (`report/`), card."""
    with speaking_plainly(as_json):
        from data_schemas.reader import DatasetReader
        from pipelines.figures import collect_figures
        from pipelines.oracle.plot import write_report
        from pipelines.oracle.report import measure
        from pipelines.run.publish import CARD, write_card

        reader = DatasetReader(folder, version)
        measured = measure(reader, _connect_embeddings(embeddings_url, embeddings_model))
        written = [*write_report(reader.store, measured), CARD]
        write_card(reader.store, reader.manifest, collect_figures(DatasetReader(folder)))
        if as_json:
            print_json({**measured.to_json(), "files": written})
        else:
            _show(measured.to_json(), written)


def _connect_embeddings(url: str | None, model: str | None) -> "EmbeddingModel | None":
    from backends.chat.embeddings import EmbeddingModel
    from data_schemas.errors import ConfigError

    if url is None and model is None:
        return None
    if url is None or model is None:
        raise ConfigError("Embeddings need a URL and a model.", "Say --embeddings-url URL --embeddings-model NAME.")
    return EmbeddingModel(url, model)


def _show(report: Mapping[str, Any], written: Sequence[str]) -> None:
    from flows.cli import show
    from pipelines.oracle.ladder_section import TITLES, make_header, make_table, summarise

    console = show.console()
    for group, more in TITLES.items():
        for source, figures in report[group].items():
            title = f"{source}{more}: {figures['n_items']} items, {figures['n_failed']} events failed"
            console.print(show.table(title, make_header(report), make_table(report, figures)))
            console.print("\n".join(summarise(report, figures)), "")
    console.print(f"Written: {', '.join(written)}")
