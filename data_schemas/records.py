"""The product's nouns. Each class is also an Arrow schema (`arrow.schema_of`): one definition, nothing to keep equal.

Times are seconds on the dialogue's clock and end in `_s`; `None` means that a later stage fills it in.
"""

from dataclasses import dataclass
from typing import Literal

SCHEMA_VERSION = 1

Split = Literal["train", "validation", "test"]
Speaker = Literal["A", "B"]  # A: the assistant, left channel; B: the user, right channel
EventStatus = Literal["answered", "shared", "truth", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A question with its answer, as its source has it.

    `answer` is what is to be said in the end: the right option's text, or the final answer. `explanation` is how one
    gets there, where the source tells. `options` is empty for an open question.
    """

    item_id: str
    group_id: str
    source: str
    native_id: str | None
    split: str
    language: str
    question: str
    answer: str
    explanation: str | None
    options: tuple[str, ...]
    answer_index: int | None
    category: str | None
    picture: str | None
    licence: str | None
    revision: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WordTiming:
    """One spoken word and when it is heard; `score` is the aligner's: higher is better, comparable in one `method`."""

    word: str
    start_s: float
    end_s: float
    score: float
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """One breath of speech. `kind` is `speech` or `backchannel`; the latter counts neither in r nor in history."""

    kind: str
    spoken_text: str
    voice: str | None
    speed: float | None
    start_s: float | None
    end_s: float | None
    words: tuple[WordTiming, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One speaker's move. `written_text` is as the item has it, `spoken_text` as it is said.

    An assistant's turn is lead + body + tail; `body` alone is the true answer (hint of levels 1-4, text of level 5).
    """

    turn_index: int
    speaker: str
    written_text: str
    spoken_text: str
    lead: str | None
    body: str
    tail: str | None
    answer_word_index: int | None
    keyword_delay_s: float | None
    start_s: float | None
    end_s: float | None
    utterances: tuple[Utterance, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where each piece of a dialogue came from; the card adds it up."""

    script_method: str
    tts: str | None
    tts_digest: str | None
    voice_a: str | None
    voice_b: str | None
    aligner: str | None
    aligner_digest: str | None
    seed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """Turns of a user and an assistant made from an item; a data shard's row without its audio."""

    dialogue_id: str
    item_id: str
    group_id: str
    source: str
    native_id: str | None
    variant: int
    split: str
    language: str
    category: str | None
    licence: str | None
    revision: str | None
    form: str
    question: str
    answer: str
    turns: tuple[Turn, ...]
    provenance: Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """The clean speech of one utterance, mono FLAC at 24 kHz, before mixing."""

    turn_index: int
    utterance_index: int
    voice: str
    speed: float
    n_samples: int
    flac: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Clips:
    """All the clean speech of a dialogue, with what made it."""

    dialogue_id: str
    tts: str
    tts_digest: str
    clips: tuple[Clip, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UtteranceWords:
    """The words of one utterance; times count from the utterance's own first sample."""

    turn_index: int
    utterance_index: int
    words: tuple[WordTiming, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogueWords:
    """The words of a dialogue's utterances, with what timed them."""

    dialogue_id: str
    aligner: str
    aligner_digest: str
    utterances: tuple[UtteranceWords, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """A sound file as Hugging Face `datasets` stores it in Parquet: nullable all through, or it is not taken for sound.

    (`datasets.Features.from_arrow_schema` wants a field equal to its own.) Ours always holds both.
    """

    bytes: bytes | None
    path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """What was measured on a dialogue's speech. Nulls are filled by the gate that listens."""

    rms_dbfs_a: float
    rms_dbfs_b: float
    peak_dbfs: float
    mean_word_score: float
    wer: float | None
    number_recall: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioDialogue(Dialogue):
    """A data shard's row: the dialogue with its stereo audio (A left, B right)."""

    n_samples: int
    sample_rate_hz: int
    duration_s: float
    quality: Quality
    audio: Audio | None

    @property
    def flac(self) -> bytes:
        """The sound file's bytes; empty where a foreign row has none."""
        return (self.audio.bytes if self.audio else None) or b""


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleEvent:
    """What a back-end would have answered at `t_s`, having heard `n_words_heard` of the turn's `n_words` words.

    `status`: `answered` by its own request; `shared` with the request of an earlier event of its level, `request_id`;
    `truth`, level 5; `failed`, then `text` is null and `error` says why.
    """

    event_id: str
    t_s: float
    turn_index: int
    n_words_heard: int
    n_words: int
    r: float
    level: int
    status: str
    text: str | None
    raw_text: str | None
    request_id: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleRow:
    """An oracle shard's row: a dialogue's events and what wrote them."""

    dialogue_id: str
    split: str
    source: str
    oracle_version: str
    endpoint: str | None
    model: str | None
    model_digest: str | None
    prompt_version: str
    prompt_digest: str
    interval_s: float
    level_bounds: tuple[float, ...]
    max_requests_per_turn: int
    seed: int
    events: tuple[OracleEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """What a stage refused, and why. `item_id` falls back to `<source>-row-<n>` where a row has none."""

    item_id: str
    source: str
    stage: str
    reason: str
    detail: str
