"""Reads other question sets by a column map: `--source mine=FILE --map question=q,answer=a`.

A column may be nested in another (`choices.text`). Options may be a list of texts, an object of letters and texts, a
pair of lists of labels and texts (ARC: {"text": ["Earth", "Mars"], "label": ["A", "B"]}), objects of a label and a text
each, or several columns (`options=opa+opb+opc+opd`). The answer names one of them, by label, place or text.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from pydantic import Field

from data_schemas.config import SourceConfig
from data_schemas.errors import ConfigError
from pipelines.sources.spec import (
    BadRowError,
    Draft,
    HubOptions,
    Row,
    SourceSpec,
    get_value,
    read_optional_text,
    read_options,
    read_text,
)

FIELDS = ("question", "answer", "options", "id", "category", "explanation", "picture")
"""The fields to which a column can be mapped; the first two are required."""
_LABELS, _TEXTS = ("label", "labels"), ("text", "texts")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class OwnOptions(HubOptions):
    """Options for reading the rows of a described source."""

    hub_id: str = Field(default="", description="Data set on the Hugging Face Hub, if no file is given.")
    answer_is: Literal["any", "label", "place", "text"] = Field(
        default="any",
        description="How the answer names its option; any: whatever fits, and rows in which two ways differ are "
        "rejected as ambiguous_answer.",
    )
    first_place: int = Field(default=0, ge=0, le=1, description="Number of the first option, if named by place.")


def make_spec(config: SourceConfig, options: OwnOptions) -> SourceSpec:
    """Makes the specification of a source that is not built in, from the column map of its configuration.

    Raises:
        ConfigError: neither a file nor a data set on the Hub is given, or the map lacks `question` or `answer` or names
            something unknown.
    """
    if unknown := sorted(set(config.columns) - set(FIELDS)):
        what = f"the unknown field{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}"
        raise ConfigError(f"--map for {config.name!r} has {what}.", f"Fields are {', '.join(FIELDS)}.")
    lacks = [] if config.path is not None or options.hub_id else ["no file"]
    if missing := [name for name in FIELDS[:2] if name not in config.columns]:
        lacks.append(f"missing in its map: {', '.join(missing)}")
    if lacks:
        raise ConfigError(
            f"The source {config.name!r} is not built in and is not described: {'; '.join(lacks)}.",
            f"Give --source {config.name}=FILE --map question=COLUMN,answer=COLUMN (also: {', '.join(FIELDS[2:])}). "
            f"With several sources write --map {config.name}:question=COLUMN,…",
        )
    return SourceSpec(
        name=config.name,
        hub_id=options.hub_id or None,
        hub_config=options.hub_config or None,
        hub_split=options.hub_split or "train",
        licence="not stated",
        columns=tuple(part for column in config.columns.values() for part in column.split("+")),
        draft=partial(_make_draft, config.columns, options),
    )


def _make_draft(columns: Mapping[str, str], options: OwnOptions, row: Row) -> Draft:
    """Makes the draft of a row as `_read_draft` does; an error also names the row's own id, if one is mapped."""
    try:
        return _read_draft(columns, options, row)
    except BadRowError as bad:
        native_id = read_optional_text(row, columns["id"]) if "id" in columns else None
        if native_id is None:
            raise
        raise BadRowError(bad.reason, f"{bad.detail} (id {native_id})") from bad


def _read_draft(columns: Mapping[str, str], options: OwnOptions, row: Row) -> Draft:
    """Makes the draft of a row; with options, the answer is the text of the option that the answer's column names."""
    optional = {name: read_optional_text(row, columns[name]) for name in columns if name not in ("question", "options")}
    draft = Draft(
        question=read_text(row, columns["question"]),
        answer="" if "options" in columns else read_text(row, columns["answer"]),
        native_id=optional.get("id"),
        category=optional.get("category"),
        explanation=optional.get("explanation"),
        picture=optional.get("picture"),
    )
    if "options" not in columns:
        return draft
    labels, texts = read_labelled_options(row, columns["options"])
    index = _find_chosen(labels, texts, get_value(row, columns["answer"]), options)
    return draft.with_options(texts, index)


def read_labelled_options(row: Row, column: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns labels and texts of a row's options, in the row's order; letters from A on if there are no labels.

    Raises:
        BadRowError: they have none of the forms that this module reads, there are fewer than two, or two have the same
            label.
    """
    value: Any = [get_value(row, each) for each in column.split("+")] if "+" in column else get_value(row, column)
    labels: list[Any] | None = None
    if isinstance(value, Mapping):
        given = {name: each for name, each in value.items() if each is not None}  # Parquet adds nulls
        pair = _find_pair(given)
        labels, value = pair if pair else (list(given), list(given.values()))
    elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        pairs = [_find_pair(each) for each in value]
        labels, value = [each and each[0] for each in pairs], [each and each[1] for each in pairs]
    texts = read_options(value)
    if not isinstance(labels, list | None):
        raise BadRowError("wrong_type", f"the labels of the options are {type(labels).__name__}, not a list")
    names = _LETTERS[: len(texts)] if labels is None else [str(each).strip() for each in labels]
    if len(set(names)) != len(texts):
        raise BadRowError("wrong_options", f"{len(texts)} options are labelled {', '.join(names)}")
    return tuple(names), texts


def _find_pair(given: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """Returns the values of an object's label and text columns; None unless it has exactly these two columns."""
    uses = {name: "label" if name in _LABELS else "text" for name in given if name in _LABELS + _TEXTS}
    by_use = {use: given[name] for name, use in uses.items()}
    return (by_use["label"], by_use["text"]) if len(by_use) == len(given) == 2 else None


def _find_chosen(labels: tuple[str, ...], texts: tuple[str, ...], answer: object, options: OwnOptions) -> int:
    """Returns the index of the option that an answer names by its label, place or text.

    Raises:
        BadRowError: it names none, or several by different ways of naming.
    """
    if answer is None or isinstance(answer, bool) or not isinstance(answer, str | int):
        kind = "missing_field" if answer is None else "wrong_type"
        raise BadRowError(kind, f"the answer is {type(answer).__name__}, neither text nor number")
    answer_text = str(answer).strip()
    place = int(answer_text) - options.first_place if answer_text.isdecimal() and answer_text.isascii() else -1
    is_place = options.answer_is == "place" or (options.answer_is == "any" and isinstance(answer, int))
    found = {place} if is_place and 0 <= place < len(texts) else set()
    for way, named in (("label", labels), ("text", texts)):
        if options.answer_is in ("any", way):
            found |= {index for index, each in enumerate(named) if each == answer_text}
    if len(found) > 1:
        raise BadRowError("ambiguous_answer", f"answer {answer_text!r} names options {sorted(found)}; say answer_is")
    if not found:
        raise BadRowError("answer_out_of_range", f"answer {answer_text!r} of {len(texts)} options")
    (index,) = found
    if not texts[index]:
        raise BadRowError("empty_field", f"option {labels[index]!r} is empty")
    return index
