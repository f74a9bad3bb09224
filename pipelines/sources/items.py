"""Reads rows as items: checks columns, deduplicates, rejects broken rows and contaminated items (decontamination)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from data_schemas import ids, splits
from data_schemas.config import SourceConfig, SplitConfig
from data_schemas.errors import ConfigError, SourceError
from data_schemas.records import Item, Reject
from pipelines.pictures.files import find_picture_file
from pipelines.sources.reading import NotARow, read_file, read_hub, resolve_hub_revision
from pipelines.sources.registry import get_spec
from pipelines.sources.spec import ENGLISH, BadRowError, Draft, Row, SourceSpec, get_value

STAGE = "source"


@dataclass(frozen=True, slots=True)
class SourceReading:
    """The result of reading one source: items in source order, rejects, number of rows, and whether these are all.

    `is_whole` is False if as many rows were read as the limit allows, even if there are no others.
    `n_left` counts, by language, the rows' texts in languages that were not requested.
    `ids_there` has the ids of all items of the source, also of those beyond the limit; None if they are not known.
    """

    items: list[Item]
    rejects: list[Reject]
    n_rows: int
    is_whole: bool
    n_left: Counter[str] = field(default_factory=Counter)
    ids_there: frozenset[str] | None = None


def read_items(
    config: SourceConfig, limit: int | None, split: SplitConfig, contaminated: frozenset[str] = frozenset()
) -> SourceReading:
    """Reads the first `limit` rows of a source as items, or all rows if it is None; broken rows become rejects.

    Without a file in the configuration, they are read from the Hugging Face Hub.

    Args:
        contaminated: normalised questions of the evaluation sets; items with them are rejected.

    Raises:
        SourceError: the source as a whole is unreadable, empty, or no row has the required columns.
        ConfigError: the source is unknown and not described, or does not accept the options or columns.
    """
    spec = get_spec(config)
    if config.path is None and spec.hub_id is not None:  # the exact revision is recorded
        config = config.model_copy(update={"revision": resolve_hub_revision(spec.hub_id, config.revision)})
    rows = list(islice(_read_rows(spec, config), limit))
    where = config.path or spec.hub_id
    _check_columns(spec, rows, str(where))
    reading = _Reading(spec, config, split, contaminated)
    for index, row in enumerate(rows):
        reading.add_row(index, row)
    is_whole = limit is None or len(rows) < limit
    return SourceReading(list(reading.items.values()), reading.rejects, len(rows), is_whole, reading.n_left)


@dataclass(slots=True)
class _Reading:
    """Collects the items and rejects of one source."""

    spec: SourceSpec
    config: SourceConfig
    split: SplitConfig
    contaminated: frozenset[str]
    items: dict[str, Item] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    n_left: Counter[str] = field(default_factory=Counter)

    def add_row(self, index: int, row: Row | NotARow) -> None:
        """Adds an item or a reject for each requested language of a row, and counts its other languages.

        Args:
            index: number of the row in the file, from 0.
        """
        row_id = f"{self.spec.name}-row-{index}"
        if isinstance(row, NotARow):
            self._add_reject(row_id, BadRowError("not_json", row.detail))
            return
        row = self.spec.rename_row(row)
        there = self.spec.languages_of(row)
        self.n_left.update(set(there) - set(self.config.languages))
        for language in self.config.languages:
            if language in there:
                self._add_language(index, row_id, row, language)

    def _add_language(self, index: int, row_id: str, row: Row, language: str) -> None:
        """Adds the item of a row in one language, or a reject if the row is invalid, repeated or contaminated."""
        try:
            draft = self.spec.draft(self.spec.in_language(row, language))
            # All languages of a row are one question, in one split: that of its first language.
            first = self.spec.in_language(row, self.spec.languages_of(row)[0])
            group = splits.make_group_id(self.spec.draft(first).question)
            item = _make_item(self.spec, self.config, self.split, draft, language, group)
            row_id = item.item_id
            if item.item_id in self.items:
                raise BadRowError("duplicate", f"row {index} repeats {item.item_id}")
            if splits.normalise_question(item.question) in self.contaminated:
                raise BadRowError("contaminated", f"row {index} stands in an evaluation set")
            self.items[item.item_id] = item
        except BadRowError as bad:
            self._add_reject(row_id, bad)

    def _add_reject(self, row_id: str, bad: BadRowError) -> None:
        """Adds the reject of a row; `row_id` is the id of its item, or stands for it if there is none."""
        refused = Reject(item_id=row_id, source=self.spec.name, stage=STAGE, reason=bad.reason, detail=bad.detail[:500])
        self.rejects.append(refused)


def read_evaluation_questions(paths: Sequence[str]) -> frozenset[str]:
    """Returns the questions of evaluation sets, normalised for comparison.

    Those of a row are its `question` or `prompt`, or all of its `turns` (MT-Bench).

    Raises:
        SourceError: a file is unreadable, or a row has none of these.
    """
    found: set[str] = set()
    for path in paths:
        for index, row in enumerate(read_file(path)):
            texts = [] if isinstance(row, NotARow) else row.get("turns") or [row.get("question") or row.get("prompt")]
            if not (texts and isinstance(texts, list) and all(isinstance(text, str) for text in texts)):
                raise SourceError(
                    f"Row {index} of the evaluation set {path} has no question.",
                    "Each row needs text under `question` or `prompt`, or a list of texts under `turns`.",
                )
            found.update(splits.normalise_question(text) for text in texts)
    return frozenset(found)


def _read_rows(spec: SourceSpec, config: SourceConfig) -> Iterator[Row | NotARow]:
    """Returns the rows of the configured file, else of the Hub's data set; raises `ConfigError` without either."""
    if config.path is not None:
        return read_file(config.path)
    if spec.hub_id is None:
        raise ConfigError(f"The source {spec.name!r} is not on the Hub.", f"Give --source {spec.name}=FILE.")
    return read_hub(spec.hub_id, spec.hub_config, spec.hub_split, config.revision, spec.list_file_columns())


def _check_columns(spec: SourceSpec, rows: list[Row | NotARow], where: str) -> None:
    """Raises `SourceError` if there are no rows, or if no row has one of the columns that the source needs."""
    if not rows:
        raise SourceError(f"{where} holds no rows.", f"The source {spec.name} needs at least one.")
    read = [row for row in rows if not isinstance(row, NotARow)]
    there = {column for row in read for column in row}
    wanted = [spec.renamed.get(column, column) for column in spec.columns]
    missing = [each for each in wanted if each not in there and all(get_value(row, each) is None for row in read)]
    if missing:
        raise SourceError(
            f"No row of {where} has the column(s) {', '.join(missing)} that {spec.name} needs; "
            f"there are: {', '.join(sorted(there)) or 'none'}.",
            "Name the right source, or map columns with --map question=COLUMN,answer=COLUMN.",
        )


def _make_item(
    spec: SourceSpec, config: SourceConfig, split: SplitConfig, draft: Draft, language: str, group: str
) -> Item:
    """Makes the item of a draft; the id of an item in another language than English names the language."""
    item_id = ids.make_item_id(spec.name, draft.native_id, draft.question)
    return Item(
        item_id=item_id if language == ENGLISH else f"{item_id}-{language}",
        group_id=group,
        source=spec.name,
        native_id=draft.native_id,
        split=splits.choose_split(group, split),
        language=language,
        question=draft.question,
        answer=draft.answer,
        explanation=draft.explanation,
        options=draft.options,
        answer_index=draft.answer_index,
        category=draft.category,
        picture=draft.picture,
        picture_digest=_compute_picture_digest(config.pictures, draft.picture),
        picture_text=None,
        licence=config.licence or spec.licence,
        revision=" read by ".join(filter(None, (config.revision, spec.package))) or None,
    )


def _compute_picture_digest(folder: str | None, picture: str | None) -> str | None:
    """Returns the digest of a picture's file, by which changes are noticed; None if there is no file."""
    file = find_picture_file(folder, picture) if folder and picture else None
    return ids.compute_sha256(file)[:16] if file else None
