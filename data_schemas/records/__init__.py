"""Records of datasets. Each class also defines an Arrow schema (`arrow.make_schema`).

Times are seconds on the dialogue's clock and end in `_s`; `None` means that a later stage sets the field, unless the
class gives it another meaning.
"""

from dataclasses import dataclass

from data_schemas.records.dialogue import (
    USERS_BY,
    Dialogue,
    Hearing,
    Item,
    Placement,
    Provenance,
    Speaker,
    Turn,
    Utterance,
    WordTiming,
    WrittenSpan,
)
from data_schemas.records.oracle import OracleEvent, OracleRow
from data_schemas.records.recording import HeardTurn, RecordedSession, RecordedVoice, SaidPiece
from data_schemas.records.speech import (
    Audio,
    AudioDialogue,
    DialogueClips,
    DialogueWords,
    Quality,
    SpokenSentence,
    Surroundings,
    UtteranceClip,
    UtteranceWords,
)

__all__ = [
    "SCHEMA_VERSION",
    "USERS_BY",
    "Audio",
    "AudioDialogue",
    "Dialogue",
    "DialogueClips",
    "DialogueWords",
    "HeardTurn",
    "Hearing",
    "Item",
    "OracleEvent",
    "OracleRow",
    "Placement",
    "Provenance",
    "Quality",
    "RecordedSession",
    "RecordedVoice",
    "Reject",
    "SaidPiece",
    "Speaker",
    "SpokenSentence",
    "Surroundings",
    "Turn",
    "Utterance",
    "UtteranceClip",
    "UtteranceWords",
    "WordTiming",
    "WrittenSpan",
]

SCHEMA_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """An item or dialogue that a stage rejected, and why.

    `item_id` is `<source>-row-<n>` for row n, from 0, of which no item could be made.

    `dialogue_id` is null if the item was rejected, together with all its dialogues.
    """

    item_id: str
    dialogue_id: str | None = None
    source: str
    stage: str
    reason: str
    detail: str
