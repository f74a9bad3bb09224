"""Kokoro-82M: the embedded text-to-speech engine (24 kHz, CPU, no network).

Phonemes come from eSpeak NG, sound from an int8 ONNX model that holds no random numbers: the same arguments give the
same samples on one kind of processor. One core takes about half as long as the speech lasts.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np

from backends.protocols import Samples, Speech, SpeechRefused, Voice
from backends.tts import kokoro_assets
from data_schemas import ids
from data_schemas.errors import BackendError, ConfigError
from data_schemas.units import seconds_to_samples

_RECIPE = 1
"""Version of what this file does to text and sound; raise it when the samples change."""

_ENGINE = ("kokoro-onnx", "phonemizer", "espeakng-loader", "onnxruntime")
"""Whose versions can change the sound: splitting and vocabulary; words to phonemes (two of them); the arithmetic."""

SPEED_MIN, SPEED_MAX = 0.5, 2.0
"""What the model bears (kokoro-onnx, `Kokoro._prepare`)."""

_SILENCE_DBFS = -60.0  # Kokoro's rests lie below -65 dBFS, breaths included; the quietest consonants above -57
_MARGIN_S = 0.05  # what stays of the silence at both ends: the mixing stage adds the pauses
_FADE_S = 0.005  # so that a cut inside the margin makes no click
_FRAME_S = 0.01
_JOIN_S = {".": 0.2, "!": 0.2, "?": 0.2, ",": 0.1, ";": 0.1, ":": 0.1}  # silence after a piece; margins come on top
_LETTER_A = re.compile(r"(?<=[A-Za-z,;:] )A\b(?! [A-Z][a-z]|')|\bA(?= [A-Z]\b)")


class Kokoro:
    """Says English text with the voices at hand; one model a process, loaded when first needed."""

    name = "kokoro"

    def __init__(self) -> None:
        self._tables = kokoro_assets.voices()
        self._voices = tuple(
            Voice(
                name=name,
                language="en-gb" if name.startswith("b") else "en-us",
                licence=kokoro_assets.VOICE_LICENCE,
                digest=kokoro_assets.digest_of(table),
            )
            for name, table in self._tables.items()
        )

    @property
    def digest(self) -> str:
        """Model, engine versions and this file's recipe; voices have digests of their own."""
        return ids.digest("kokoro", _RECIPE, kokoro_assets.MODEL_SHA256, [[name, version(name)] for name in _ENGINE])

    def voices(self) -> Sequence[Voice]:
        """The 28 English voices best first, or, where `make voices` never fetched them, five Japanese speakers'."""
        return self._voices

    def synthesise(self, text: str, voice: str, speed: float) -> Speech:
        """The speech of `text`, float32 [n_samples] at 24 kHz, with at most 50 ms of silence at either end.

        A text of more than 510 phonemes is said in pieces, cut at sentences, then clauses, then words.

        Raises:
            SpeechRefused: there is nothing in `text` to say.
            ConfigError: there is no such voice here, or `speed` is not from 0.5 to 2.
            BackendError: eSpeak or the model does not load.
        """
        if voice not in self._tables:
            raise ConfigError(f"Kokoro has no voice {voice!r} here.", f"Voices here: {', '.join(self._tables)}.")
        if not SPEED_MIN <= speed <= SPEED_MAX:
            raise ConfigError(f"Kokoro cannot speak at speed {speed}.", f"Choose from {SPEED_MIN} to {SPEED_MAX}.")
        pieces = _pieces(text, "en-gb" if voice.startswith("b") else "en-us")
        if not pieces:
            raise SpeechRefused(f"there is nothing to say in {text!r}")
        sounds = [_trimmed(_say(piece, self._tables[voice], speed)) for piece in pieces]
        if not all(sound.size for sound in sounds):
            raise SpeechRefused(f"{voice} says nothing but silence to {text!r}")
        return Speech(_joined(sounds, pieces))


def _pieces(text: str, language: str) -> list[str]:
    """Phonemes in pieces of at most 510; none where no sound is among them."""
    from kokoro_onnx.chunker import split_phonemes

    phonemes = " ".join(_tokenizer().phonemize(_name_a(text), language).split())
    return [piece for piece in split_phonemes(phonemes) if any(symbol.isalpha() for symbol in piece)]


def _name_a(text: str) -> str:
    """`vitamin A` and `D N A` with the letter's name, which eSpeak reads from `eigh`: it takes A for the article.

    Left alone: A at a sentence's start, and in titles (`A Tale of Two Cities`).
    """
    return _LETTER_A.sub("eigh", text)


def _say(phonemes: str, table: kokoro_assets.VoiceTable, speed: float) -> Samples:
    tokens = _tokenizer().tokenize(phonemes)
    inputs = {
        "tokens": np.array([[0, *tokens, 0]], dtype=np.int64),
        "style": table[np.newaxis, len(tokens) - 1],  # [1, 256]
        "speed": np.array([speed], dtype=np.float32),
    }
    sound: Samples = _session().run(["audio"], inputs)[0].reshape(-1)
    return sound


def _trimmed(sound: Samples) -> Samples:
    """The sound from 50 ms before its first audible frame to 50 ms after its last; empty where there is none."""
    n_frame, n_margin = seconds_to_samples(_FRAME_S), seconds_to_samples(_MARGIN_S)
    frames = sound[: sound.size // n_frame * n_frame].reshape(-1, n_frame)
    audible = np.flatnonzero(np.square(frames).mean(axis=1) > 10 ** (_SILENCE_DBFS / 10))
    if not audible.size:
        return sound[:0]
    kept = sound[max(0, audible[0] * n_frame - n_margin) : (audible[-1] + 1) * n_frame + n_margin].copy()
    fade = np.linspace(0, 1, seconds_to_samples(_FADE_S), dtype=np.float32)
    kept[: fade.size] *= fade
    kept[-fade.size :] *= fade[::-1]
    return kept


def _joined(sounds: Iterable[Samples], pieces: Sequence[str]) -> Samples:
    """The pieces with a short silence after each but the last, longer after a sentence than inside one."""
    parts: list[Samples] = []
    for sound, piece in zip(sounds, pieces, strict=True):
        parts += [sound, np.zeros(seconds_to_samples(_JOIN_S.get(piece[-1], 0.0)), dtype=np.float32)]
    return np.concatenate(parts[:-1])


@cache
def _tokenizer() -> Any:
    from kokoro_onnx.tokenizer import Tokenizer

    try:
        return Tokenizer()
    except (RuntimeError, OSError) as error:
        raise BackendError(f"eSpeak NG does not load: {error}.", "Type: make install") from error


@cache
def _session() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # processes, not threads, fill the cores
    return onnxruntime.InferenceSession(
        str(kokoro_assets.model_path()), options, providers=["CPUExecutionProvider"]
    )  # the file's SHA-256 has been checked
