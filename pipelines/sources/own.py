"""Anybody's own questions: `--source mine=FILE --map question=q,answer=a` reads the named columns of any file."""

from functools import partial

from data_schemas.config import SourceConfig
from data_schemas.errors import ConfigError
from pipelines.sources.spec import Draft, Row, SourceSpec, optional_text, text_of

FIELDS = ("question", "answer", "id", "category", "explanation")
"""What a column can be mapped to; the first two must be."""


def spec(config: SourceConfig) -> SourceSpec:
    """The question set that a column map describes.

    Raises:
        ConfigError: no file, or a map that lacks `question` or `answer` or names something unknown.
    """
    unknown = sorted(set(config.columns) - set(FIELDS))
    missing = [name for name in FIELDS[:2] if name not in config.columns]
    if config.path is None or unknown or missing:
        raise ConfigError(
            f"The source {config.name!r} is none of ours and is not described: "
            + ("no file. " if config.path is None else "")
            + (f"unknown in its map: {', '.join(unknown)}. " if unknown else "")
            + (f"missing in its map: {', '.join(missing)}." if missing else ""),
            f"Say --source {config.name}=FILE --map question=COLUMN,answer=COLUMN (also: {', '.join(FIELDS[2:])}).",
        )
    return SourceSpec(
        name=config.name,
        hub_id=None,
        hub_config=None,
        hub_split="",
        licence="not stated",
        columns=tuple(config.columns.values()),
        draft=partial(_draft, config.columns),
    )


def _draft(columns: dict[str, str], row: Row) -> Draft:
    optional = {name: optional_text(row, column) for name, column in columns.items()}
    return Draft(
        question=text_of(row, columns["question"]),
        answer=text_of(row, columns["answer"]),
        native_id=optional.get("id"),
        category=optional.get("category"),
        explanation=optional.get("explanation"),
    )
