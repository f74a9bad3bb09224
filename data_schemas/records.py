"""The product's nouns. Each class is also an Arrow schema (`arrow.schema_of`): one definition, nothing to keep equal.

Times are seconds on the dialogue's clock and end in `_s`; `None` means that a later stage fills it in.
"""

from dataclasses import dataclass
from typing import Literal

SCHEMA_VERSION = 2

Split = Literal["train", "validation", "test"]
Speaker = Literal["A", "B"]  # A: the assistant, left channel; B: the user, right channel
EventStatus = Literal["answered", "shared", "truth", "failed"]
PlacementRule = Literal["after", "early", "interrupt", "over"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A question with its answer, as its source has it.

    `answer` is what is to be said in the end: the right option's text, or the final answer. `explanation` is how one
    gets there, where the source tells. `options` is empty for an open question. `picture` is the path of a picture that
    comes with it, and `picture_text` what the question needs from that picture, in words, once a model has looked.
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
    picture_text: str | None
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
class WrittenSpan:
    """The characters of its turn's `written_text` that a spoken word came from; nulls where it stands for none."""

    start_char: int | None
    end_char: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where an utterance goes on the clock, as the script wants it before any time is known.

    `after`: `seconds` of silence after all speech before it (null: drawn by the mixing stage). `early`: the assistant
    starts at most `seconds` before the user's turn ends. `interrupt`: starts at the end of word `word_index` of the
    other's last turn, which is then cut off `seconds` later. `over`: starts `seconds` after the end of word
    `word_index` of the other's turn `turn_index`, which goes on (backchannels).
    """

    rule: str
    seconds: float | None
    turn_index: int | None
    word_index: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """What a recogniser heard of an utterance; counts, so that figures add up over any group of utterances.

    `n_words` are the words that were to be heard and `n_word_errors` the wrong, missing and added ones; numbers and
    names are counted apart. `n_takes` is how often it was said until it passed.
    """

    text: str
    n_words: int
    n_word_errors: int
    n_numbers: int
    n_numbers_heard: int
    n_names: int
    n_names_heard: int
    n_takes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """One breath of speech. `kind` is `speech` or `backchannel`; the latter counts neither in r nor in history.

    `written_spans` has one span a spoken word. `hearing` is null where no recogniser listened.
    """

    kind: str
    spoken_text: str
    written_spans: tuple[WrittenSpan, ...]
    placement: Placement
    hearing: Hearing | None
    voice: str | None
    speed: float | None
    start_s: float | None
    end_s: float | None
    words: tuple[WordTiming, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One speaker's move. `written_text` is what was to be said, as one writes it; `spoken_text` as it was said.

    An assistant's turn is lead + body + tail; `body` alone is the true answer (hint of levels 1-4, text of level 5).
    `answer_word_index` is the turn's first word that bears the answer, `keyword_delay_s` how long after its start
    it comes. A turn that was interrupted has `cut_s`, the moment it falls silent: the words that would have ended later
    are in none of its utterances, while `written_text`, `lead`, `body` and `tail` stay as planned.
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
    cut_s: float | None
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
    """The clean speech of one utterance, mono FLAC at 24 kHz, before mixing.

    `words` are the synthesiser's own times, where it tells them of every word; else empty.
    """

    turn_index: int
    utterance_index: int
    voice: str
    speed: float
    n_samples: int
    flac: bytes
    words: tuple[WordTiming, ...]
    hearing: Hearing | None


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
    name_recall: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the user's channel was made to sound like, drawn by seed; nulls where nothing was added."""

    level_dbfs: float
    noise_dbfs: float | None
    room_rt60_s: float | None
    is_telephone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioDialogue(Dialogue):
    """A data shard's row: the dialogue with its stereo audio (A left, B right)."""

    n_samples: int
    sample_rate_hz: int
    duration_s: float
    quality: Quality
    surroundings: Surroundings
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
