"""Reads a folder of recordings as a source, with one item per session. The stage reads the audio."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from data_schemas import ids, splits
from data_schemas.arrow import from_table
from data_schemas.config import SourceConfig, SplitConfig
from data_schemas.errors import SourceError, StoreError
from data_schemas.records import HeardTurn, Item, Reject, SaidPiece
from data_schemas.store import Store
from pipelines.sources.items import SourceReading

STAGE: Final = "recordings"
"""The stage name in rejects of recordings."""

LICENCE: Final = "recorded with consent; not for others"
"""The default licence: what callers agreed to is in the notice, which is kept with each recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionText:
    """A recording without its audio: columns of `RecordedSession`."""

    session_id: str
    started_at: str
    consented_at: str
    notice: str
    language: str
    heard: tuple[HeardTurn, ...]
    said: tuple[SaidPiece, ...]


def open_recordings_folder(config: SourceConfig) -> Store:
    """Opens the folder of a source's recordings.

    Raises:
        SourceError: it does not exist.
    """
    store = Store(config.path or "")
    if not config.path or not store.fs.isdir(store.root):
        raise SourceError(
            f"There is no folder of recordings {config.path}.", "Give the folder of `kame serve --record`."
        )
    return store


def make_session_path(session_id: str) -> str:
    """Returns the path of a session's file in the folder of recordings."""
    return f"{session_id}.parquet"


def _get_session_id(path: str) -> str:
    """Returns the id of the session whose file this is."""
    return path.removesuffix(".parquet")


def read_session_texts(store: Store) -> Iterator[tuple[str, SessionText | StoreError]]:
    """Yields the path of each Parquet file below a folder, sorted, with its session or the error of reading it.

    The audio of the session is not read. A file that does not have the name of its session is an error too.
    """
    for path in store.list_files("", ".parquet"):
        try:
            (text,) = from_table(store.read_table(path, list(SessionText.__annotations__)), SessionText)
            if path != make_session_path(text.session_id):
                what = f"{store.resolve_path(path)} contains the session {text.session_id} but is not named after it."
                raise StoreError(what, f"Rename it to {make_session_path(text.session_id)}.")
            yield path, text
        except StoreError as error:
            yield path, error
        except ValueError:  # not exactly one row
            yield path, StoreError(f"{store.resolve_path(path)} is not a recording of one session.")


def read_recordings(
    config: SourceConfig, limit: int | None, split: SplitConfig, contaminated: frozenset[str]
) -> SourceReading:
    """Reads the recordings of a folder as items, the earliest first; an unusable session is rejected.

    Args:
        limit: maximum number of sessions; None for all.
        contaminated: normalised questions of evaluation sets; a session with one of them is rejected.

    Raises:
        SourceError: the folder does not exist.
    """
    store = open_recordings_folder(config)
    found = sorted(
        read_session_texts(store), key=lambda each: getattr(each[1], "started_at", "")
    )  # stable: then by name
    ids_there = frozenset(ids.make_item_id(config.name, _get_session_id(path), "") for path, _ in found)
    is_whole = limit is None or len(found) < limit
    reading = SourceReading([], [], len(found[:limit]), is_whole, ids_there=ids_there)
    for path, text in found[:limit]:
        if isinstance(text, StoreError):
            reading.rejects.append(_make_reject(config.name, _get_session_id(path), "damaged", str(text)))
            continue
        reason = _find_reason(text, contaminated)
        if reason is not None:
            reading.rejects.append(_make_reject(config.name, text.session_id, reason, f"of {text.started_at}"))
            continue
        reading.items.append(_make_item(config, split, text, store.describe(path).sha256[:16]))
    return reading


def _find_reason(text: SessionText, contaminated: frozenset[str]) -> str | None:
    """Returns the name of the reason to reject a session; None if it can be used."""
    if not any(turn.text.strip() for turn in text.heard):
        return "nothing_heard"
    if not "".join(piece.text for piece in text.said).strip():
        return "nothing_said"
    asked = {splits.normalise_question(turn.text) for turn in text.heard}
    return "contaminated" if asked & contaminated else None


def _make_item(config: SourceConfig, split: SplitConfig, text: SessionText, digest: str) -> Item:
    """Makes an item: `question` is all the caller's text, `answer` all the server's, `revision` the file's digest."""
    question = " ".join(turn.text for turn in text.heard)
    group = splits.make_group_id(question)
    return Item(
        item_id=ids.make_item_id(config.name, text.session_id, question),
        group_id=group,
        source=config.name,
        native_id=text.session_id,
        split=splits.choose_split(group, split),
        language=text.language,
        question=question,
        answer="".join(piece.text for piece in text.said).strip(),
        explanation=None,
        options=(),
        answer_index=None,
        category=None,
        picture=None,
        picture_digest=None,
        picture_text=None,
        licence=config.licence or LICENCE,
        revision=digest,
    )


def _make_reject(source: str, session_id: str, reason: str, detail: str) -> Reject:
    """Makes the reject of a session; the detail is cut at 500 characters."""
    item_id = ids.make_item_id(source, session_id, "")
    return Reject(item_id=item_id, source=source, stage=STAGE, reason=reason, detail=detail[:500])
