"""Speech of dialogues: clean clips, word timings, and the row of a data shard."""

from dataclasses import dataclass

from data_schemas.records.dialogue import Dialogue, Hearing, WordTiming


@dataclass(frozen=True, slots=True, kw_only=True)
class UtteranceClip:
    """The clean speech of one utterance, mono FLAC at 24 kHz, before mixing.

    `words` are the times given by the text-to-speech engine, if it gives them for every word; else empty.
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
class DialogueClips:
    """All clean speech of a dialogue, with its text-to-speech engine and the recogniser that checked it (or null)."""

    dialogue_id: str
    tts: str
    tts_digest: str
    asr: str | None
    asr_digest: str | None
    clips: tuple[UtteranceClip, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UtteranceWords:
    """Word timings of one utterance, in seconds from its first sample."""

    turn_index: int
    utterance_index: int
    words: tuple[WordTiming, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogueWords:
    """Word timings of a dialogue's utterances, with the aligner that made them."""

    dialogue_id: str
    aligner: str
    aligner_digest: str
    utterances: tuple[UtteranceWords, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenSentence:
    """A sentence in the assistant's voice without a dialogue; `item_id` is null if it is not from an item.

    `kind` is one of `data_schemas.config.speech_rows.SentenceKind`; times are seconds from the first sample.
    """

    sentence_id: str
    kind: str
    split: str
    source: str
    item_id: str | None
    spoken_text: str
    voice: str
    speed: float
    words: tuple[WordTiming, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """An audio file as Hugging Face `datasets` stores it in Parquet, where all fields must be nullable.

    (`datasets.Features.from_arrow_schema` compares the field with its own.) Here both are always set.
    """

    bytes: bytes | None
    path: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Quality figures of a dialogue's speech.

    The last three are null if no recogniser was used; the recalls also if no number or name was said.
    """

    rms_dbfs_a: float
    rms_dbfs_b: float
    peak_dbfs: float
    mean_word_score: float
    wer: float | None
    number_recall: float | None
    name_recall: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Acoustic conditions of the user's channel, drawn by seed; nulls if nothing was added."""

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
        """The bytes of the audio file; empty if a row of other origin has none."""
        return (self.audio.bytes if self.audio else None) or b""
