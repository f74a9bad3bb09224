"""Compares two versions of a dataset: figures, and the dialogues of one id that differ.

Both indexes are attached to one connection, so that DuckDB joins them: only one page is in Python's memory.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from dashboard.figures import Totals, format_bytes, format_duration, format_number
from dashboard.index import CONNECTION_CONFIG, Index, fetch_records
from dashboard.timeline import DiffPiece, compare_words

PAGE_DIALOGUES: Final = 20
SIDES: Final = ("left", "right")
ONLY: Final = {"only_left": "only left", "only_right": "only right"}
_DIFFERS: Final = {
    "question": "one.question IS DISTINCT FROM two.question",
    "answer": "one.answer IS DISTINCT FROM two.answer",
    "spoken": "one.spoken_text IS DISTINCT FROM two.spoken_text",
    "oracles": "one.oracle_digest IS DISTINCT FROM two.oracle_digest",
    "form": "one.form IS DISTINCT FROM two.form",
    "split": "one.split IS DISTINCT FROM two.split",
    "sound": "(one.duration_s, one.voice_a, one.voice_b, one.tts)"
    " IS DISTINCT FROM (two.duration_s, two.voice_a, two.voice_b, two.tts)",
}
KINDS: Final = ("any", *_DIFFERS, *ONLY)
"""Kinds of differences that can be shown: any, or a single one."""
_COMPARED: Final = f"""
CREATE TEMP TABLE compared AS SELECT *, {" OR ".join((*_DIFFERS, *ONLY))} AS "any" FROM (
    SELECT coalesce(one.dialogue_id, two.dialogue_id) AS dialogue_id,
        two.dialogue_id IS NULL AS only_left, one.dialogue_id IS NULL AS only_right,
        {", ".join(f"NOT only_left AND NOT only_right AND ({sql}) AS {name}" for name, sql in _DIFFERS.items())}
    FROM one.dialogues one FULL JOIN two.dialogues two USING (dialogue_id))
"""  # noqa: S608
_SHOWN: Final = (
    "dialogue_id, item_id, question, answer, spoken_text, form, split, duration_s, voice_a, voice_b, tts, n_events"
)
_EVENTS: Final = """
SELECT coalesce(l.dialogue_id, r.dialogue_id) AS dialogue_id, coalesce(l.t_s, r.t_s) AS t_s,
    l.level AS left_level, r.level AS right_level, l.text AS left_text, r.text AS right_text
FROM (FROM one.events WHERE oracle_version = $left AND list_contains($ids, dialogue_id)) l
FULL JOIN (FROM two.events WHERE oracle_version = $right AND list_contains($ids, dialogue_id)) r
    USING (dialogue_id, speaker, turn_index, t_s)
WHERE l.text IS DISTINCT FROM r.text OR l.level IS DISTINCT FROM r.level OR l.status IS DISTINCT FROM r.status
ORDER BY dialogue_id, t_s
"""


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """A figure as text; `change` is right minus left, empty if they are equal or not numbers."""

    name: str
    left: str
    right: str
    change: str = ""


@dataclass(frozen=True, slots=True)
class ChangedText:
    """A text of both versions, with marks on the words that are not in the other one."""

    name: str
    left: list[DiffPiece]
    right: list[DiffPiece]


@dataclass(frozen=True, slots=True)
class ChangedEvent:
    """An oracle event that differs; a side without one at this time has no level."""

    t_s: float
    left_level: int | None
    right_level: int | None
    left: list[DiffPiece]
    right: list[DiffPiece]


@dataclass(frozen=True, slots=True)
class ChangedDialogue:
    """A dialogue that differs or that one side lacks (then `reject` says why, if known).

    `left` and `right` are rows of the indexes; `facts` are the names of short values that differ, with both values.
    """

    dialogue_id: str
    left: Mapping[str, Any] | None
    right: Mapping[str, Any] | None
    texts: list[ChangedText]
    facts: list[ComparedFigure]
    events: list[ChangedEvent]
    reject: Mapping[str, Any] | None


class Versions:
    """Two joined indexes.

    Args:
        connection: has them attached as `one` and `two`.
        oracle_versions: versions of the left and of the right one, from their manifests.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, oracle_versions: tuple[str, str]) -> None:
        self._connection = connection
        self._oracle_versions = oracle_versions
        connection.execute(_COMPARED)

    def count(self) -> dict[str, int]:
        """Counts the dialogues that differ, by kind of difference, and under `both` the ids that both versions have."""
        sums = ", ".join(f'count(*) FILTER ("{name}") AS "{name}"' for name in KINDS)
        both = "count(*) FILTER (NOT only_left AND NOT only_right) AS both"
        return fetch_records(self._connection, f"SELECT {sums}, {both} FROM compared")[0]  # noqa: S608

    def read_page(self, kind: str, page: int) -> list[ChangedDialogue]:
        """Returns a page of the dialogues with one kind of difference, sorted by id, each with all of its differences.

        Args:
            kind: one of `KINDS`.
            page: from 1.
        """
        first = (page - 1) * PAGE_DIALOGUES
        found = self._connection.execute(
            f'SELECT dialogue_id FROM compared WHERE "{kind}" ORDER BY 1 LIMIT {PAGE_DIALOGUES} OFFSET {first}'  # noqa: S608
        ).fetchall()
        ids = [name for (name,) in found]
        left, right = (self._read_rows(side, ids) for side in ("one", "two"))
        events = self._read_events(ids)
        rejects = {
            (side, row["item_id"]): row
            for side in ("one", "two")
            for row in self._query_records(
                f"SELECT item_id, stage, reason, detail FROM {side}.rejects WHERE list_contains($items, item_id)",  # noqa: S608
                {"items": [row["item_id"] for row in (*left.values(), *right.values())]},
            )
        }
        return [
            _make_changed_dialogue(name, left.get(name), right.get(name), events.get(name, []), rejects) for name in ids
        ]

    def count_groups(self, column: str) -> list[ComparedFigure]:
        """Counts the dialogues with each value of a column (`none` for null) on both sides, the most frequent first."""
        return self._count_groups("dialogues", f"coalesce({column}, 'none')")

    def count_rejects(self) -> list[ComparedFigure]:
        """Counts rejects by stage and reason on both sides, the most frequent first."""
        return self._count_groups("rejects", "stage || ': ' || reason")

    def _count_groups(self, table: str, value: str) -> list[ComparedFigure]:
        """Counts the rows of a table by an SQL expression on both sides, the most frequent value first."""
        sql = (
            "SELECT name, coalesce(one.n, 0), coalesce(two.n, 0) FROM"  # noqa: S608
            f" (SELECT {value} AS name, count(*) AS n FROM one.{table} GROUP BY 1) one FULL JOIN"
            f" (SELECT {value} AS name, count(*) AS n FROM two.{table} GROUP BY 1) two USING (name)"
            " ORDER BY greatest(coalesce(one.n, 0), coalesce(two.n, 0)) DESC, name"
        )
        return [_compare_counts(name, left, right) for name, left, right in self._connection.execute(sql).fetchall()]

    def _read_rows(self, side: str, ids: list[str]) -> dict[str, dict[str, Any]]:
        """Returns the dialogues of a side (`one` or `two`) with these ids, by id."""
        sql = f"SELECT {_SHOWN} FROM {side}.dialogues WHERE list_contains($ids, dialogue_id)"  # noqa: S608
        return {row["dialogue_id"]: row for row in self._query_records(sql, {"ids": ids})}

    def _read_events(self, ids: list[str]) -> dict[str, list[ChangedEvent]]:
        """Returns the oracle events of some dialogues that differ between the two versions, by dialogue."""
        left, right = self._oracle_versions
        events: dict[str, list[ChangedEvent]] = {}
        for row in self._query_records(_EVENTS, {"ids": ids, "left": left, "right": right}):
            texts = compare_words((row["left_text"] or "").split(), (row["right_text"] or "").split(), str)
            event = ChangedEvent(row["t_s"], row["left_level"], row["right_level"], *texts)
            events.setdefault(row["dialogue_id"], []).append(event)
        return events

    def _query_records(self, sql: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """Executes a query on both indexes and returns its rows as dictionaries."""
        return fetch_records(self._connection, sql, parameters)


@contextmanager
def open_versions(left: Index, right: Index, oracle_versions: tuple[str, str]) -> Iterator[Versions]:
    """Joins two indexes in a database in memory for the duration of a `with` block; their files are only read."""
    with closing(duckdb.connect(config=CONNECTION_CONFIG)) as connection:
        for name, index in (("one", left), ("two", right)):
            file = str(index.file).replace("'", "''")
            connection.execute(f"ATTACH '{file}' AS {name} (READ_ONLY)")
        yield Versions(connection, oracle_versions)


def compare_totals(left: Totals, right: Totals, n_bytes: tuple[int, int]) -> list[ComparedFigure]:
    """Returns a figure for each total of two versions, and for their sizes on disk (left, right)."""
    return [
        _compare_counts("Items", left.n_items, right.n_items),
        _compare_counts("Dialogues", left.n_dialogues, right.n_dialogues),
        ComparedFigure("Audio", format_duration(left.audio_s), format_duration(right.audio_s)),
        _compare_counts("Words", left.n_words, right.n_words),
        _compare_counts("Oracle events", left.n_events, right.n_events),
        ComparedFigure("Word error rate", _format_percent(left.wer, 2), _format_percent(right.wer, 2)),
        _compare_counts("Rejects", left.n_rejects, right.n_rejects),
        ComparedFigure("On disk", *map(format_bytes, n_bytes)),
    ]


def compare_ladders(left: Totals, right: Totals) -> list[ComparedFigure]:
    """Returns a figure for each hint level: the share of the true answer's words in the oracles of both versions."""
    one, two = ({level: share for level, _, share in each.ladder} for each in (left, right))
    return [
        ComparedFigure(f"Level {level}", _format_percent(one.get(level), 1), _format_percent(two.get(level), 1))
        for level in sorted({*one, *two})
    ]


def _format_percent(share: float | None, digits: int) -> str:
    """Formats a share in percent; `–` for None."""
    return "–" if share is None else f"{format_number(100 * share, digits)} %"


def _compare_counts(name: str, left: int, right: int) -> ComparedFigure:
    """Makes the figure of two counts, with their difference if they are not equal."""
    change = "" if left == right else f"{'+' if right > left else ''}{format_number(right - left)}"
    return ComparedFigure(name, format_number(left), format_number(right), change)


def _make_changed_dialogue(
    dialogue_id: str,
    left: Mapping[str, Any] | None,
    right: Mapping[str, Any] | None,
    events: list[ChangedEvent],
    rejects: Mapping[tuple[str, str], Mapping[str, Any]],
) -> ChangedDialogue:
    """Returns how the rows of a dialogue differ; if a side has none, with the reject of its item there.

    Args:
        rejects: rejects by side (`one`, `two`) and item id.
    """
    if left is None or right is None:
        row, other = (left, "two") if left is not None else (right, "one")
        assert row is not None
        return ChangedDialogue(dialogue_id, left, right, [], [], [], rejects.get((other, row["item_id"])))
    texts = [
        ChangedText(title, *compare_words(left[name].split(), right[name].split(), str))
        for name, title in (("question", "question"), ("answer", "answer"), ("spoken_text", "spoken"))
        if left[name] != right[name]
    ]
    facts = [
        ComparedFigure(title, _format_value(left[name]), _format_value(right[name]))
        for name, title in (
            ("form", "form"),
            ("split", "split"),
            ("duration_s", "seconds"),
            ("voice_a", "voice of A"),
            ("voice_b", "voice of B"),
            ("tts", "text-to-speech"),
        )
        if left[name] != right[name]
    ]
    return ChangedDialogue(dialogue_id, left, right, texts, facts, events, None)


def _format_value(value: str | float | None) -> str:
    """Formats a number with two decimal places, and a text unchanged; `–` for None."""
    return "–" if value is None else f"{value:.2f}" if isinstance(value, float) else value
