"""Dialogues as sound: clean clips and word times on the way, and the row of a data shard."""

from dataclasses import dataclass

from data_schemas.records.dialogue import Dialogue, Hearing, WordTiming


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
    """All the clean speech of a dialogue, with what made it and what listened to it (null: nothing did)."""

    dialogue_id: str
    tts: str
    tts_digest: str
    asr: str | None
    asr_digest: str | None
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
class SpokenSentence:
    """A sentence that the assistant's voice said by itself; `item_id` is null where no item says it.

    `kind` is one of `data_schemas.config.speech_rows.SentenceKind`; times count from the sound's first sample.
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
