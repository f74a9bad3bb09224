"""`kame oracle`: what the oracles of a dataset are worth."""

from typing import TYPE_CHECKING, Annotated

import typer

from flows.terminal import AsJson, Folder, print_json, speaking_plainly

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pipelines.oracle.nearness import Estimate
    from pipelines.oracle.report import SourceFigures

app = typer.Typer(help="Look at a dataset's oracles as a whole.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keeps a lone sub-command a sub-command."""


@app.command()
def report(
    folder: Folder,
    version: Annotated[str | None, typer.Option("--version", help="Oracle version; else the dataset's own.")] = None,
    as_json: AsJson = False,
) -> None:
    """The ladder measured: nearness to the true answer by level and source; table, plot and JSON (`report/`), card."""
    with speaking_plainly(as_json):
        from data_schemas.reader import DatasetReader
        from flows import show
        from pipelines.card import CARD
        from pipelines.figures import figures_of
        from pipelines.oracle.plot import write_report
        from pipelines.oracle.report import measure
        from pipelines.publish import write_card

        reader = DatasetReader(folder, version)
        measured = measure(reader)
        written = [*write_report(reader.store, measured), CARD]
        write_card(reader.store, reader.manifest, figures_of(DatasetReader(folder)))
        if as_json:
            print_json({**measured.as_json(), "files": written})
            return
        console = show.console()
        groups = (
            ("", measured.sources),
            (", other turns", measured.other_turns),
            (", user's words", measured.user_words),
        )
        for more, sources in groups:
            for source, figures in sources.items():
                console.print(*_told(f"{source}{more}", figures))
        console.print(f"Written: {', '.join(written)}")


def _told(name: str, figures: "SourceFigures") -> list["RenderableType"]:
    """One ladder as a table, and what it comes to."""
    from flows import show

    title = f"{name}: {figures.n_items} items, {figures.n_failed} events failed"
    head = ("level", "answered", "failed", "word F1 (95%)", "answer found (95%)", "below ten words %")
    rows = [
        (
            level,
            own.n_events,
            own.n_failed,
            _shown(own.word_f1),
            _shown(own.answer_found),
            "-" if own.short_share is None else round(100 * own.short_share),
        )
        for level, own in figures.levels.items()
    ]
    told = (
        f"Spearman of level and nearness: {_shown(figures.spearman)}; means rise from level to level: "
        f"{'yes' if figures.rises else 'no'}.\nLevel 0 less chance: {_shown(figures.above_chance)}; chance "
        f"(answers of other items): {_shown(figures.chance)}.\n"
    )
    return [show.table(title, head, rows), told]


def _shown(estimate: "Estimate") -> str:
    if estimate.value is None:
        return "-"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"
