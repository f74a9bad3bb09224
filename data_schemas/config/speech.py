"""Who says it, what it must pass, when each word is said, and what it is made to sound like."""

from typing import Self

from pydantic import Field, model_validator

from data_schemas.config.base import Config


class SpeechConfig(Config):
    """Who speaks, and how loud."""

    tts: str = Field(
        default="kokoro",
        title="Text-to-speech",
        description="Back-end that speaks (`kame backends` lists them).",
    )
    tts_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="The back-end's own options (docs/backends.md lists them)."
    )
    tts_b: str | None = Field(
        default=None, description="Text-to-speech back-end of the user's voices; empty: the assistant's, as `tts` says."
    )
    tts_b_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="The options of `tts_b`; of the same kind as `tts_options`."
    )
    voice_a: str | None = Field(
        default=None, title="The assistant's voice", description="The assistant's voice; empty: the back-end's first."
    )
    voices_b: list[str] | None = Field(
        default=None,
        description="The user's voices, drawn by seed; empty: all that their back-end has but A's. Where it has one "
        "alone, name it here to have both speak with it.",
    )
    disjoint_voices: bool = Field(
        default=False, description="Whether users of validation and test speak with voices that train never hears."
    )
    speed_min: float = Field(default=0.95, ge=0.5, le=2, description="Slowest speed of speech (1 = the voice's own).")
    speed_max: float = Field(default=1.1, ge=0.5, le=2, description="Fastest speed of speech (1 = the voice's own).")
    level_dbfs: float = Field(
        default=-27.0,
        ge=-40,
        le=-10,
        description="RMS level of every utterance, in dBFS; above -27 some voices clip.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.speed_min > self.speed_max:
            raise ValueError("speed_min is above speed_max")
        if self.tts_b_options and self.tts_b is None:
            raise ValueError("tts_b_options are given without tts_b")
        return self


class GateConfig(Config):
    """What speech must pass before it is kept."""

    asr: str = Field(
        default="moonshine", description="Recogniser that hears every utterance (`kame backends`); none: nobody does."
    )
    asr_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="The recogniser's own options (docs/backends.md lists them)."
    )
    max_wer: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Greatest share of an utterance's words that may be heard otherwise: at 0.2 one of five, none of "
        "four. Negations and the words that bear the answer must be heard in any case.",
    )
    every_number: bool = Field(default=True, description="Whether each number must be heard with its value and sign.")
    min_name_recall: float = Field(
        default=0.0, ge=0, le=1, description="Least share of an utterance's names heard; 0: recorded only."
    )
    max_takes: int = Field(default=3, ge=1, le=5, description="Times an utterance is said with one voice, at most.")
    max_voices: int = Field(
        default=2, ge=1, le=10, description="Voices of the user that a dialogue is tried with, at most."
    )
    min_level_dbfs: float = Field(default=-50.0, ge=-90, le=-20, description="Quieter speech is silent, in dBFS.")
    max_pause_s: float = Field(default=1.2, gt=0, le=10, description="Longest silence inside an utterance, seconds.")
    max_clipped_run: int = Field(
        default=3, ge=1, le=100, description="Most samples in a row that may lie at the sound's very peak."
    )
    min_letter_s: float = Field(
        default=0.02, ge=0, le=1, description="Least length of speech for each letter at speed 1, seconds."
    )
    max_letter_s: float = Field(
        default=0.14, gt=0, le=2, description="Greatest length of speech for each letter at speed 1, seconds."
    )


class AlignmentConfig(Config):
    """What gives each spoken word its time."""

    aligner: str = Field(default="pocketsphinx", description="Aligner back-end (`kame backends` lists them).")
    aligner_options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="The back-end's own options (docs/backends.md lists them)."
    )
    min_mean_score: dict[str, float] = Field(
        default={"pocketsphinx": -4.0, "whisperx": 0.3},
        description="Aligner to the least mean score of an utterance's words, each on its own scale (pocketsphinx: "
        "log likelihood, 0 is best; whisperx: probability, 1 is best); one that is not listed has no limit.",
    )


class MixingConfig(Config):
    """How utterances are laid on the dialogue's clock, in seconds."""

    before_min_s: float = Field(default=0.2, ge=0, le=5, description="Least silence before the first word, seconds.")
    before_max_s: float = Field(default=0.8, ge=0, le=5, description="Most silence before the first word, seconds.")
    gap_min_s: float = Field(default=0.2, ge=0, le=5, description="Least gap between two turns, seconds.")
    gap_max_s: float = Field(default=0.8, ge=0, le=5, description="Most gap between two turns, seconds.")
    after_s: float = Field(default=0.6, ge=0, le=5, description="Silence after the last word, seconds.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.before_min_s > self.before_max_s or self.gap_min_s > self.gap_max_s:
            raise ValueError("before_min_s is above before_max_s, or gap_min_s above gap_max_s")
        return self


class SurroundingsConfig(Config):
    """What the user's channel is made to sound like; drawn by seed, a dialogue at a time.

    Callers speak from a desk or a sofa, not from a studio: the defaults are rooms of homes and offices, and noise that
    leaves every word to be understood. Of Kokoro's speech a recogniser (Moonshine) heard all words at 15 dB and all in
    rooms of 0.4 s, but lost 6% at 10 dB and 8% at 0.6 s; the aligner, listening again, put word starts 13 and 16 ms
    from where they are. Levels lie around -26 dBFS, the nominal one of telephony (ITU-T P.56).
    """

    level_min_dbfs: float = Field(default=-36.0, ge=-40, le=-10, description="Lowest level of the user's speech, dBFS.")
    level_max_dbfs: float = Field(
        default=-22.0, ge=-40, le=-10, description="Highest level of the user's speech, dBFS; less where it would clip."
    )
    noise_share: float = Field(default=0.5, ge=0, le=1, description="Share of dialogues with a noise floor.")
    snr_min_db: float = Field(default=15.0, ge=6, le=60, description="Least speech over noise, dB.")
    snr_max_db: float = Field(default=40.0, ge=6, le=60, description="Most speech over noise, dB.")
    room_share: float = Field(default=0.3, ge=0, le=1, description="Share of dialogues in a room that echoes.")
    rt60_min_s: float = Field(
        default=0.2, ge=0.2, le=0.6, description="Shortest reverberation (RT60), seconds: a furnished bedroom."
    )
    rt60_max_s: float = Field(
        default=0.4, ge=0.2, le=0.6, description="Longest reverberation (RT60), seconds: a bare office."
    )
    telephone_share: float = Field(
        default=0.1, ge=0, le=1, description="Share of dialogues over a telephone band, 300 to 3400 Hz."
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for name in ("level_min_dbfs", "snr_min_db", "rt60_min_s"):
            most = name.replace("_min_", "_max_")
            if getattr(self, name) > getattr(self, most):
                raise ValueError(f"{name} is above {most}")
        return self
