"""Speech: voices, quality checks, word alignment, mixing, noise and reverberation."""

from typing import Self

from pydantic import Field, model_validator

from data_schemas.config.base import Config


class SpeechConfig(Config):
    """Text-to-speech engines, voices, speed and level."""

    tts: str = Field(
        default="kokoro",
        title="Text-to-speech",
        description="Text-to-speech engine (`kame backends` lists them).",
    )
    tts_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Options of the engine (docs/backends.md lists them)."
    )
    tts_b: str | None = Field(
        default=None, description="Text-to-speech engine for the user's voices; empty: the same as `tts`."
    )
    tts_b_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Options of the engine `tts_b`."
    )
    voice_a: str | None = Field(
        default=None,
        title="The assistant's voice",
        description="Name of the assistant's voice; empty: the engine's first.",
    )
    voices_b: list[str] | None = Field(
        default=None,
        description="Names of the user's voices, drawn by seed; empty: all voices of the engine except the "
        "assistant's. If the engine has only one voice, name it here so that both speak with it.",
    )
    disjoint_voices: bool = Field(
        default=False, description="Whether the users of validation and test have voices that do not occur in train."
    )
    speed_min: float = Field(default=0.95, ge=0.5, le=2, description="Minimum speaking rate (1: the voice's own).")
    speed_max: float = Field(default=1.1, ge=0.5, le=2, description="Maximum speaking rate (1: the voice's own).")
    level_dbfs: float = Field(
        default=-27.0,
        ge=-40,
        le=-10,
        description="RMS level of every utterance, in dBFS; above -27 some voices clip.",
    )

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        """Checks that speed_min is at most speed_max, and that tts_b_options has a tts_b."""
        if self.speed_min > self.speed_max:
            raise ValueError("speed_min is above speed_max")
        if self.tts_b_options and self.tts_b is None:
            raise ValueError("tts_b_options needs tts_b; set both or neither")
        return self


class GateConfig(Config):
    """Quality checks that speech must pass; an utterance that fails is synthesised again or rejected."""

    asr: str = Field(
        default="moonshine",
        description="Speech recogniser that transcribes every utterance (`kame backends`); none: no check by a "
        "recogniser.",
    )
    asr_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Options of the recogniser (docs/backends.md lists them)."
    )
    max_wer: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Maximum word error rate (WER) of an utterance: at 0.2, one word of five may differ, and none of "
        "four. Negations and the words that carry the answer must always be recognised.",
    )
    every_number: bool = Field(
        default=True, description="Whether each number must be recognised with its value and sign."
    )
    min_name_recall: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Minimum share of an utterance's names that are recognised; 0: recorded, but not checked.",
    )
    max_takes: int = Field(
        default=3, ge=1, le=5, description="Maximum number of attempts to synthesise an utterance with one voice."
    )
    max_voices: int = Field(
        default=2, ge=1, le=10, description="Maximum number of the user's voices that are tried for a dialogue."
    )
    min_level_dbfs: float = Field(
        default=-50.0,
        ge=-90,
        le=-20,
        description="Minimum level of speech, in dBFS; below it an utterance is rejected as silent.",
    )
    max_pause_s: float = Field(
        default=1.2, gt=0, le=10, description="Maximum length of a silence inside an utterance, in seconds."
    )
    max_clipped_run: int = Field(
        default=3, ge=1, le=100, description="Clipping: maximum number of consecutive samples at the peak value."
    )
    min_letter_s: float = Field(
        default=0.02, ge=0, le=1, description="Minimum duration of speech per letter at speed 1, in seconds."
    )
    max_letter_s: float = Field(
        default=0.14, gt=0, le=2, description="Maximum duration of speech per letter at speed 1, in seconds."
    )


class AlignmentConfig(Config):
    """The forced aligner that finds the time of each spoken word."""

    aligner: str = Field(default="pocketsphinx", description="Forced aligner (`kame backends` lists them).")
    aligner_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Options of the aligner (docs/backends.md lists them)."
    )
    min_mean_score: dict[str, float] = Field(
        default={"pocketsphinx": -4.0, "whisperx": 0.3},
        description="Minimum mean score of an utterance's words for each aligner, on its own scale (pocketsphinx: "
        "log likelihood, 0 is best; whisperx: probability, 1 is best); aligners that are not listed have no limit.",
    )


class MixingConfig(Config):
    """How utterances are placed on the dialogue's time line."""

    before_min_s: float = Field(
        default=0.2, ge=0, le=5, description="Minimum silence before the first word, in seconds."
    )
    before_max_s: float = Field(
        default=0.8, ge=0, le=5, description="Maximum silence before the first word, in seconds."
    )
    gap_min_s: float = Field(default=0.2, ge=0, le=5, description="Minimum gap between two turns, in seconds.")
    gap_max_s: float = Field(default=0.8, ge=0, le=5, description="Maximum gap between two turns, in seconds.")
    after_s: float = Field(default=0.6, ge=0, le=5, description="Silence after the last word, in seconds.")

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        """Checks that each minimum is at most its maximum."""
        if self.before_min_s > self.before_max_s or self.gap_min_s > self.gap_max_s:
            raise ValueError("before_min_s is above before_max_s, or gap_min_s above gap_max_s")
        return self


class SurroundingsConfig(Config):
    """Acoustic conditions of the user's channel, drawn by seed for each dialogue.

    The defaults are rooms of homes and offices, and noise in which every word can be understood. Of Kokoro's speech a
    recogniser (Moonshine) heard all words at 15 dB and all in rooms of 0.4 s, but lost 6% at 10 dB and 8% at 0.6 s; the
    aligner, run again on such speech, found word starts with errors of 13 and 16 ms. Levels lie around -26 dBFS, the
    nominal level of telephony (ITU-T P.56).
    """

    level_min_dbfs: float = Field(
        default=-36.0, ge=-40, le=-10, description="Minimum level of the user's speech, in dBFS."
    )
    level_max_dbfs: float = Field(
        default=-22.0,
        ge=-40,
        le=-10,
        description="Maximum level of the user's speech, in dBFS; lower if it would clip.",
    )
    noise_share: float = Field(default=0.5, ge=0, le=1, description="Share of dialogues with background noise.")
    snr_min_db: float = Field(default=15.0, ge=6, le=60, description="Minimum signal-to-noise ratio (SNR), in dB.")
    snr_max_db: float = Field(default=40.0, ge=6, le=60, description="Maximum signal-to-noise ratio (SNR), in dB.")
    room_share: float = Field(default=0.3, ge=0, le=1, description="Share of dialogues with reverberation.")
    rt60_min_s: float = Field(
        default=0.2,
        ge=0.2,
        le=0.6,
        description="Minimum reverberation time (RT60), in seconds; 0.2 is a furnished bedroom.",
    )
    rt60_max_s: float = Field(
        default=0.4, ge=0.2, le=0.6, description="Maximum reverberation time (RT60), in seconds; 0.4 is a bare office."
    )
    telephone_share: float = Field(
        default=0.1, ge=0, le=1, description="Share of dialogues with a telephone band, 300 to 3400 Hz."
    )

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        """Checks that each minimum is at most its maximum."""
        for name in ("level_min_dbfs", "snr_min_db", "rt60_min_s"):
            most = name.replace("_min_", "_max_")
            if getattr(self, name) > getattr(self, most):
                raise ValueError(f"{name} is above {most}")
        return self
