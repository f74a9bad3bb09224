"""`kame oracle`: what the oracles of a dataset are worth."""

from typing import TYPE_CHECKING, Annotated

import typer

from flows.terminal import AsJson, Folder, print_json, speaking_plainly

if TYPE_CHECKING:
    from pipelines.oracle.nearness import Estimate

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
    """The ladder measured: nearness to the true answer by level and source, as table, JSON and plot in `report/`."""
    with speaking_plainly(as_json):
        from flows import show
        from pipelines.oracle.plot import write_report
        from pipelines.oracle.report import measure
        from pipelines.reader import DatasetReader

        reader = DatasetReader(folder, version)
        measured = measure(reader)
        written = write_report(reader.store, measured)
        if as_json:
            print_json({**measured.as_json(), "files": written})
            return
        console = show.console()
        for source, figures in measured.sources.items():
            title = f"{source}: {figures.n_items} items, {figures.n_failed} events failed"
            head = ("level", "events", "word F1 (95%)", "answer found (95%)")
            rows = [
                (level, own.n_events, _shown(own.word_f1), _shown(own.answer_found))
                for level, own in figures.levels.items()
            ]
            console.print(show.table(title, head, rows))
            console.print(
                f"Spearman of level and nearness: {_shown(figures.spearman)}; means rise from level to level: "
                f"{'yes' if figures.rises else 'no'}.\nLevel 0 less chance: {_shown(figures.above_chance)}; chance "
                f"(answers of other items): {_shown(figures.chance)}.\n"
            )
        console.print(f"Written: {', '.join(written)}")


def _shown(estimate: "Estimate") -> str:
    if estimate.value is None:
        return "-"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"
