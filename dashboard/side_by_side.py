"""Checkpoints side by side: facts that differ, figures with their intervals, and comparisons that were written of them.

Figures of two evaluations are unpaired here: each has its own interval over its own items. `kame evaluate compare`
draws the same items for both, whose difference is known far better than these intervals suggest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dashboard.checkpoints import COMPARISON, Checkpoint, Evaluation, Figure
from dashboard.training import compare_settings

Digests = Mapping[str, str | None]
"""What stands for the weights of each checkpoint, by its key; None: it is not known so far."""


@dataclass(frozen=True, slots=True)
class Line:
    """A figure of each column; None: a column has none."""

    title: str
    cells: Sequence[Figure | None]


@dataclass(frozen=True, slots=True)
class Group:
    """Evaluations that were run alike, but for what was measured.

    Attributes:
        columns: the checkpoint and its evaluation; several of one checkpoint are its seeds, or the modes of a server.
        lines: by the title of the row of figures.
    """

    title: str
    columns: Sequence[tuple[Checkpoint, Evaluation]]
    lines: Mapping[str, Sequence[Line]]


def compare_facts(checkpoints: Sequence[Checkpoint]) -> list[tuple[str, list[str | None]]]:
    """Facts in which checkpoints differ, as JSON; None where one has none."""
    told = []
    for each in checkpoints:
        facts = each.require()
        told.append({"parameters": facts.n_parameters, "bytes": facts.n_bytes, **facts.all_facts})
    return compare_settings(told)


def list_losses(checkpoints: Sequence[Checkpoint]) -> list[tuple[str, list[float | None]]]:
    """Figures on validation, each checkpoint's."""
    names = dict.fromkeys(name for each in checkpoints for name in each.require().losses)
    return [(name, [each.require().losses.get(name) for each in checkpoints]) for name in sorted(names)]


def list_shares(checkpoints: Sequence[Checkpoint]) -> list[Line]:
    """What free runs came to, each checkpoint's."""
    by_name = [{figure.name: figure for figure in each.require().shares} for each in checkpoints]
    names = dict.fromkeys(name for each in by_name for name in each)
    return [Line(name, [each.get(name) for each in by_name]) for name in names]


def group_evaluations(
    checkpoints: Sequence[Checkpoint], digests: Digests, evaluations: Sequence[Evaluation]
) -> tuple[list[Group], list[tuple[Checkpoint, Evaluation]]]:
    """Evaluations that may stand side by side, and those that only one of the checkpoints has."""
    alike: dict[str, list[tuple[Checkpoint, Evaluation]]] = {}
    for checkpoint in checkpoints:
        for each in of_weights(evaluations, digests[checkpoint.key]):
            alike.setdefault(each.facts.alike, []).append((checkpoint, each))
    groups, alone = [], []
    for columns in alike.values():
        if len({checkpoint.key for checkpoint, _ in columns}) > 1:
            groups.append(Group(columns[0][1].facts.kind, columns, _make_lines([each for _, each in columns])))
        else:
            alone += columns
    return groups, alone


def find_comparisons(digests: Digests, evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """What `kame evaluate compare` wrote of at least two of the checkpoints."""
    wanted = {each for each in digests.values() if each is not None}
    comparisons = [each for each in evaluations if each.facts.kind == COMPARISON]
    return [each for each in comparisons if len(wanted & each.facts.checkpoints) > 1]


def comparisons_of(evaluations: Sequence[Evaluation], digest: str | None) -> list[Evaluation]:
    """The comparisons in which some weights are."""
    return [each for each in evaluations if each.facts.kind == COMPARISON and digest in each.facts.checkpoints]


def of_weights(evaluations: Sequence[Evaluation], digest: str | None) -> list[Evaluation]:
    """The evaluations of some weights; no comparisons."""
    return [each for each in evaluations if each.facts.kind != COMPARISON and digest in each.facts.checkpoints]


def _make_lines(evaluations: Sequence[Evaluation]) -> dict[str, list[Line]]:
    rows = [{row.title: row for row in each.facts.rows} for each in evaluations]
    titles = dict.fromkeys(title for each in rows for title in each)
    found = {}
    for title in titles:
        figures = [{f.name: f for f in each[title].figures} if title in each else {} for each in rows]
        names = dict.fromkeys(name for each in figures for name in each)
        found[title] = [Line(name, [each.get(name) for each in figures]) for name in names]
    return found
