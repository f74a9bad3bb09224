"""Counts the figures of a dataset from its files, for the card, the terminal and Prefect."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from backends.chat.model_names import NOT_REPORTED, is_as_asked
from data_schemas.manifest import DATA, ORACLE, REJECTS, ShardEntry
from data_schemas.reader import DatasetReader
from data_schemas.records import USERS_BY
from data_schemas.store import Store

_CARD_COLUMNS = ["source", "split", "form", "licence", "duration_s", "turns", "provenance"]
LISTENER, NOBODY = "listener", "nobody"
_ENGINES = {"asr": LISTENER, "aligner": "aligner"}
_ROLES = ("script", "wording", "speech", "users' speech", *_ENGINES.values())
_SIMULATOR_COLUMNS = ["oracle_version", "simulator", "endpoint", "model", "prompt_version"]
_SIMULATOR_HEAD = ("version", "simulator", "endpoint", "model", "prompts", "dialogues")
_ANSWERER_HEAD = ("version", "asked for", "answered by", "same name", "answers")
_HEARD_BY = ("source", "form", "voice")
_HEARD_COUNTS = ("n_words", "n_word_errors", "n_numbers", "n_numbers_heard", "n_names", "n_names_heard", "n_takes")


@dataclass(frozen=True, slots=True)
class FigureTable:
    """Some of the figures as a table; `key` names it for programs, in lower case with dashes."""

    key: str
    title: str
    head: tuple[str, ...]
    rows: list[tuple[object, ...]]


@dataclass(slots=True)
class Figures:
    """The counts of a dataset. The keys of a counter are what it counts by.

    `heard` has the sums of the counts of `Hearing` over a group of utterances, by kind of group (source, form, voice)
    and name, and `n_utterances`, the number that a recogniser heard. `engines` has the number of dialogues by role and
    name of the engines that made them.
    """

    dialogues: Counter[str] = field(default_factory=Counter)
    splits: Counter[str] = field(default_factory=Counter)
    forms: Counter[str] = field(default_factory=Counter)
    audio_s: Counter[str] = field(default_factory=Counter)
    licences: Counter[str] = field(default_factory=Counter)
    voices: Counter[str] = field(default_factory=Counter)
    engines: Counter[tuple[str, str]] = field(default_factory=Counter)
    n_words: int = 0
    n_utterances: int = 0
    heard: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    levels: Counter[int] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    simulators: Counter[tuple[str, ...]] = field(
        default_factory=Counter
    )  # version, simulator, endpoint, model, prompts
    answerers: Counter[tuple[str, str, str]] = field(
        default_factory=Counter
    )  # version, model asked, model that answered
    rejects: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def n_dialogues(self) -> int:
        """The number of dialogues of all sources."""
        return sum(self.dialogues.values())

    @property
    def total_audio_s(self) -> float:
        """The duration of the audio of all sources, in seconds."""
        return round(sum(self.audio_s.values()), 3)

    @property
    def n_utterances_heard(self) -> int:
        """The number of utterances that a recogniser heard."""
        return sum(counts["n_utterances"] for (kind, _), counts in self.heard.items() if kind == "source")

    @property
    def n_events(self) -> int:
        """The number of oracle events of all levels."""
        return sum(self.levels.values())


def count_figures(store: Store, entries: Sequence[ShardEntry], oracle_version: str) -> Figures:
    """Counts the figures of a dataset from these files.

    Oracle events are counted only for `oracle_version`, simulators and models for all versions.
    """
    figures = Figures()
    for entry in entries:
        if entry.kind == DATA:
            _count_dialogues(figures, store.read_table(entry.path, _CARD_COLUMNS))
        elif entry.kind == ORACLE:
            table = store.read_table(entry.path, [*_SIMULATOR_COLUMNS, "events"])
            _count_simulators(figures, table)
            _count_answerers(figures, table)
            if entry.oracle_version == oracle_version:
                _count_events(figures, table)
        elif entry.kind == REJECTS:
            table = store.read_table(entry.path, ["source", "reason"])
            figures.rejects.update(zip(table["source"].to_pylist(), table["reason"].to_pylist(), strict=True))
    return figures


def list_tables(figures: Figures) -> list[FigureTable]:
    """Returns all figures as tables, in the order of display.

    Those of recognition are included only if a recogniser was used.
    """
    rejects = Counter[str]()
    for (source, _), n in figures.rejects.items():
        rejects[source] += n
    per_source = [
        (source, figures.dialogues[source], round(figures.audio_s[source] / 60, 1), rejects[source])
        for source in sorted(figures.dialogues | rejects)
    ]
    reasons = [(*key, n) for key, n in sorted(figures.rejects.items())]
    return [
        FigureTable("dialogues-by-source", "Dialogues", ("source", "dialogues", "minutes", "rejects"), [*per_source]),
        FigureTable("rejects-by-reason", "Rejects", ("source", "reason", "items"), [*reasons]),
        _make_count_table("dialogues-by-split", "Splits", ("split", "dialogues"), figures.splits),
        FigureTable("dialogues-by-form", "Forms", ("form", "dialogues", "% of all"), _make_share_rows(figures.forms)),
        *(_make_hearing_table(figures, kind) for kind in _HEARD_BY if figures.n_utterances_heard),
        _make_count_table("events-by-level", "Oracle events by hint level", ("level", "events"), figures.levels),
        _make_count_table("events-by-status", "Oracle events by status", ("status", "events"), figures.statuses),
        FigureTable("simulators", "Who wrote the oracles", _SIMULATOR_HEAD, _make_simulator_rows(figures)),
        FigureTable("answered-by", "Which models answered", _ANSWERER_HEAD, _make_answerer_rows(figures)),
        _make_count_table("licences", "Licences of the questions", ("licence", "dialogues"), figures.licences),
        _make_count_table("voices", "Voices", ("voice", "utterances"), figures.voices),
        FigureTable("engines", "What made them", ("role", "engine", "dialogues"), _make_engine_rows(figures.engines)),
    ]


def _make_count_table(key: str, title: str, head: tuple[str, str], counts: Counter[Any]) -> FigureTable:
    """Makes a table with the rows (key, count), sorted by key."""
    return FigureTable(key, title, head, sorted(counts.items()))


def _make_engine_rows(engines: Counter[tuple[str, str]]) -> list[tuple[object, ...]]:
    """Returns the rows (role, engine, number of dialogues), in the order of `_ROLES`."""
    return [(role, name, n) for wanted in _ROLES for (role, name), n in sorted(engines.items()) if role == wanted]


def _make_simulator_rows(figures: Figures) -> list[tuple[object, ...]]:
    """Returns a row of the columns `_SIMULATOR_HEAD` for each simulator, sorted."""
    return [(*key, n) for key, n in sorted(figures.simulators.items())]


def _make_answerer_rows(figures: Figures) -> list[tuple[object, ...]]:
    """Returns a row of the columns `_ANSWERER_HEAD` for each pair of the model asked for and the model that answered.

    The latter has the name that its server gave with the answer.
    """
    return [
        (version, asked, answered_by, "yes" if is_as_asked(answered_by, asked) else "no", n)
        for (version, asked, answered_by), n in sorted(figures.answerers.items())
    ]


def _make_share_rows(counts: Counter[str]) -> list[tuple[object, ...]]:
    """Returns the rows (name, count, percent of all), sorted by name."""
    return [(name, n, round(100 * n / counts.total(), 1)) for name, n in sorted(counts.items())]


def _make_hearing_table(figures: Figures, kind: str) -> FigureTable:
    """Makes the table of recognition by `kind` (source, form or voice).

    Rates are in percent of a group's words, numbers or names.
    """
    head = (kind, "utterances", "retakes", "WER %", "numbers heard %", "names heard %")
    rows: list[tuple[object, ...]] = [
        (
            name,
            counts["n_utterances"],
            counts["n_takes"] - counts["n_utterances"],
            _compute_percent(counts["n_word_errors"], counts["n_words"]),
            _compute_percent(counts["n_numbers_heard"], counts["n_numbers"]),
            _compute_percent(counts["n_names_heard"], counts["n_names"]),
        )
        for (of, name), counts in sorted(figures.heard.items())
        if of == kind
    ]
    return FigureTable(f"heard-by-{kind}", f"What a recogniser heard, by {kind}", head, rows)


def _compute_percent(part: int, whole: int) -> float | str:
    """Returns a share in percent with two decimals; "-" if `whole` is 0."""
    return round(100 * part / whole, 2) if whole else "-"


def _count_dialogues(figures: Figures, table: Any) -> None:
    """Adds the dialogues of a data file to the figures; the table has the columns `_CARD_COLUMNS`."""
    sources = table["source"].to_pylist()
    figures.dialogues.update(sources)
    figures.splits.update(table["split"].to_pylist())
    figures.forms.update(table["form"].to_pylist())
    figures.licences.update(licence or "not stated" for licence in table["licence"].to_pylist())
    for source, duration_s in zip(sources, table["duration_s"].to_pylist(), strict=True):
        figures.audio_s[source] += duration_s
    utterances = pc.list_flatten(pc.struct_field(pc.list_flatten(table["turns"]), "utterances"))
    figures.n_utterances += len(utterances)
    _count_heard(figures, table)
    figures.n_words += len(pc.list_flatten(pc.struct_field(utterances, "words")))
    figures.voices.update(pc.struct_field(utterances, "voice").to_pylist())
    for one in table["provenance"].to_pylist():
        figures.engines.update(_list_engines(one))


def _list_engines(provenance: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns role and name of everything that made a dialogue; `NOBODY` is the name if nothing had that role.

    A model for wording and a second engine of speech are left out if there is none.

    The model that worded its turns follows the script's method (`rules-3; turns 0, 1 by NAME`, as `wording.stage`
    writes it), and the engine of the user's voices follows the assistant's, if it is another one.
    """
    method, _, by_model = provenance["script_method"].partition("; ")
    model = by_model.partition(" by ")[2]
    tts, _, tts_b = (provenance["tts"] or NOBODY).partition(USERS_BY)
    engines = [("script", method), ("wording", model), ("speech", tts), ("users' speech", tts_b)]
    engines += [(role, provenance[name] or NOBODY) for name, role in _ENGINES.items()]
    return [(role, name) for role, name in engines if name]


def _count_heard(figures: Figures, table: Any) -> None:
    """Adds what a recogniser heard to the figures, by source, form and voice; skips utterances without recognition."""
    turns = table["turns"].combine_chunks()
    lists = pc.struct_field(pc.list_flatten(turns), "utterances")
    rows = pc.take(pc.list_parent_indices(turns), pc.list_parent_indices(lists))
    utterances = pc.list_flatten(lists)
    hearing = pc.struct_field(utterances, "hearing")
    columns = {name: pc.struct_field(hearing, name) for name in _HEARD_COUNTS}
    columns |= {name: pc.take(table[name].combine_chunks(), rows) for name in ("source", "form")}
    columns["voice"] = pc.struct_field(utterances, "voice")
    heard = pa.table(columns).filter(pc.is_valid(hearing))
    sums = [*((name, "sum") for name in _HEARD_COUNTS), ([], "count_all")]
    for kind in _HEARD_BY:
        for group in heard.group_by(kind).aggregate(sums).to_pylist():
            counts = figures.heard.setdefault((kind, str(group[kind])), Counter())
            counts.update({name: group[f"{name}_sum"] for name in _HEARD_COUNTS}, n_utterances=group["count_all"])


def _count_events(figures: Figures, table: Any) -> None:
    """Adds the oracle events of an oracle file to the figures, by level and by status."""
    events = pc.list_flatten(table["events"])
    figures.levels.update(pc.struct_field(events, "level").to_pylist())
    figures.statuses.update(pc.struct_field(events, "status").to_pylist())


def _count_simulators(figures: Figures, table: Any) -> None:
    """Adds the rows of an oracle file to the figures, by version, simulator, endpoint, model and prompts."""
    columns = (table[name].to_pylist() for name in _SIMULATOR_COLUMNS)
    figures.simulators.update(tuple(cell or "" for cell in row) for row in zip(*columns, strict=True))


def _count_answerers(figures: Figures, table: Any) -> None:
    """Adds the models that answered the requests of an oracle file to the figures.

    Only successful answers of a chat model count, each request once.
    """
    events = table["events"].combine_chunks()
    rows, flat = pc.list_parent_indices(events), pc.list_flatten(events)
    is_known = flat.type.get_field_index("answered_by") >= 0  # older files lack the field
    columns = {
        "version": pc.take(table["oracle_version"].combine_chunks(), rows),
        "asked": pc.take(table["model"].combine_chunks(), rows),
        "answered_by": pc.struct_field(flat, "answered_by") if is_known else pa.nulls(len(flat), pa.string()),
    }
    is_answer = pc.and_(
        pc.equal(pc.struct_field(flat, "status"), "answered"), pc.is_valid(pc.struct_field(flat, "request_id"))
    )
    for group in pa.table(columns).filter(is_answer).group_by(list(columns)).aggregate([([], "count_all")]).to_pylist():
        who = (group["version"], group["asked"] or "", group["answered_by"] or NOT_REPORTED)
        figures.answerers[who] += group["count_all"]


def collect_figures(reader: DatasetReader) -> Figures:
    """Counts the figures of a whole dataset; those of oracle events are of the version that the reader has chosen."""
    return count_figures(reader.store, reader.manifest.shards, reader.oracle_version)
