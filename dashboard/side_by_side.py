"""Comparison of checkpoints: facts that differ, figures with intervals, and existing comparisons.

Figures of two evaluations are unpaired here: each has its own interval over its own items. `kame evaluate compare`
pairs the same items, so that differences are known more precisely than these intervals suggest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dashboard.checkpoints import COMPARISON, Checkpoint, Evaluation, MeasuredFigure
from dashboard.training import compare_settings

Digests = Mapping[str, str | None]
"""Digest of the weights of each checkpoint, by key; None if it is not known yet."""


@dataclass(frozen=True, slots=True)
class FigureLine:
    """A figure in each column; None if the column has none."""

    title: str
    cells: Sequence[MeasuredFigure | None]


@dataclass(frozen=True, slots=True)
class EvaluationGroup:
    """Evaluations with the same settings of different checkpoints.

    Attributes:
        columns: checkpoint and evaluation; several of one checkpoint are its seeds, or modes of a server.
        lines: figures by title of the row.
    """

    title: str
    columns: Sequence[tuple[Checkpoint, Evaluation]]
    lines: Mapping[str, Sequence[FigureLine]]


def compare_facts(checkpoints: Sequence[Checkpoint]) -> list[tuple[str, list[str | None]]]:
    """Returns the facts in which checkpoints differ, as pairs of a name and the values of all checkpoints.

    Values are JSON, or None if a checkpoint has none. For one checkpoint, all of its facts are returned.

    Raises:
        KameError: the facts of a checkpoint cannot be read.
    """
    rows = []
    for each in checkpoints:
        facts = each.get_facts()
        rows.append({"parameters": facts.n_parameters, "bytes": facts.n_bytes, **facts.all_facts})
    return compare_settings(rows)


def list_losses(checkpoints: Sequence[Checkpoint]) -> list[tuple[str, list[float | None]]]:
    """Returns pairs of a loss's name and its values in all checkpoints (None for those without it), sorted by name.

    Raises:
        KameError: the facts of a checkpoint cannot be read.
    """
    names = dict.fromkeys(name for each in checkpoints for name in each.get_facts().losses)
    return [(name, [each.get_facts().losses.get(name) for each in checkpoints]) for name in sorted(names)]


def list_shares(checkpoints: Sequence[Checkpoint]) -> list[FigureLine]:
    """Returns a line for each figure of recall, with a cell for each checkpoint (None if it lacks the figure).

    Raises:
        KameError: the facts of a checkpoint cannot be read.
    """
    by_name = [{figure.name: figure for figure in each.get_facts().shares} for each in checkpoints]
    names = dict.fromkeys(name for each in by_name for name in each)
    return [FigureLine(name, [each.get(name) for each in by_name]) for name in names]


def group_evaluations(
    checkpoints: Sequence[Checkpoint], digests: Digests, evaluations: Sequence[Evaluation]
) -> tuple[list[EvaluationGroup], list[tuple[Checkpoint, Evaluation]]]:
    """Returns groups of the checkpoints' evaluations with equal settings, and their other evaluations.

    Each group has evaluations of two or more checkpoints. Comparisons are left out, and so are the evaluations of a
    checkpoint whose digest is not known yet.
    """
    alike: dict[str, list[tuple[Checkpoint, Evaluation]]] = {}
    for checkpoint in checkpoints:
        for each in select_evaluations(evaluations, digests[checkpoint.key]):
            alike.setdefault(each.facts.alike, []).append((checkpoint, each))
    groups, alone = [], []
    for columns in alike.values():
        if len({checkpoint.key for checkpoint, _ in columns}) > 1:
            groups.append(
                EvaluationGroup(columns[0][1].facts.kind, columns, _make_lines([each for _, each in columns]))
            )
        else:
            alone += columns
    return groups, alone


def find_comparisons(digests: Digests, evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Returns comparisons (`kame evaluate compare`) of at least two of the checkpoints."""
    wanted = {each for each in digests.values() if each is not None}
    comparisons = [each for each in evaluations if each.facts.kind == COMPARISON]
    return [each for each in comparisons if len(wanted & each.facts.checkpoints) > 1]


def select_comparisons(evaluations: Sequence[Evaluation], digest: str | None) -> list[Evaluation]:
    """Returns the comparisons that include the weights of a digest; none if the digest is not known yet."""
    return [each for each in evaluations if each.facts.kind == COMPARISON and digest in each.facts.checkpoints]


def select_evaluations(evaluations: Sequence[Evaluation], digest: str | None) -> list[Evaluation]:
    """Returns the evaluations of the weights of a digest, without comparisons; none if the digest is not known yet."""
    return [each for each in evaluations if each.facts.kind != COMPARISON and digest in each.facts.checkpoints]


def _make_lines(evaluations: Sequence[Evaluation]) -> dict[str, list[FigureLine]]:
    """Returns lines with a cell for each evaluation (None if it lacks the figure), by title of the row."""
    rows = [{row.title: row for row in each.facts.rows} for each in evaluations]
    titles = dict.fromkeys(title for each in rows for title in each)
    found = {}
    for title in titles:
        figures = [{f.name: f for f in each[title].figures} if title in each else {} for each in rows]
        names = dict.fromkeys(name for each in figures for name in each)
        found[title] = [FigureLine(name, [each.get(name) for each in figures]) for name in names]
    return found
