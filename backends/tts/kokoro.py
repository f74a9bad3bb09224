"""Kokoro-82M: the embedded text-to-speech engine (24 kHz, CPU, no network).

Phonemes come from eSpeak NG, sound from an int8 ONNX model that holds no random numbers: the same arguments give the
same samples on one kind of processor. One core takes about half as long as the speech lasts.
"""

import re
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np

from backends.engine import Samples
from backends.tts import kokoro_assets, kokoro_model
from backends.tts.kokoro_model import Piece
from backends.tts.kokoro_times import ONSET_LAG_S, TimedPiece, word_times
from backends.tts.protocol import Speech, SpeechRefused, Voice
from backends.tts.sound import faded, pause_after
from data_schemas import ids
from data_schemas.errors import ConfigError
from data_schemas.units import samples_to_seconds, seconds_to_samples

_RECIPE = 2
"""Version of what this file does to text and sound; raise it when the samples or word times change."""

_ENGINE = ("kokoro-onnx", "phonemizer", "espeakng-loader", "onnxruntime")
"""Whose versions can change the sound: splitting and vocabulary; words to phonemes (two of them); the arithmetic."""

SPEED_MIN, SPEED_MAX = 0.5, 2.0
"""What the model bears (kokoro-onnx, `Kokoro._prepare`)."""

_MAX_PHONEMES = 250
"""Longest piece said in one go, about 18 s. The model takes 510, but its memory grows with the longest piece, and
people breathe before that."""

_SHORT = 12
"""A text of at most so many phonemes is said without its full stop: with it some voices add a syllable ("Yes, sir",
"Two, uh"). Of six single words by seven voices Moonshine heard 25 right of 42 with the stop and 32 without."""

_SILENCE_DBFS = -60.0  # Kokoro's rests lie below -65 dBFS, breaths included; the quietest consonants above -57
_MARGIN_S = 0.05  # what stays of the silence at both ends: the mixing stage adds the pauses
_RELEASE_S = 0.1  # what may still be heard of the last phoneme after its end; what comes later is babble
_FRAME_S = 0.01
_LETTER_A = re.compile(r"(?<=[A-Za-z,;:] )A\b(?! [A-Z][a-z]|')|\bA(?= [A-Z]\b)")
_HUMS = {"mm": "um", "hmm": "hum", "mhm": "um hum"}  # eSpeak spells "mm" letter by letter
_HUM = re.compile(rf"\b(?:{'|'.join(_HUMS)})\b", re.IGNORECASE)


class Kokoro:
    """Says English text with the voices at hand; one model a process, loaded when first needed."""

    name = "kokoro"
    has_speed = True
    max_chars = None  # it cuts by phonemes itself
    max_calls_in_flight = 1

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

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        """The speech of `text`, float32 [n_samples] at 24 kHz, with at most 50 ms of silence at either end.

        A text of more than 250 phonemes is said in pieces, cut at sentences, then clauses, then words. Words have times
        where the phonemes show every word by itself; they often do not ("of the" is one to eSpeak).

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
        said = [kokoro_model.say(piece, self._tables[voice], speed) for piece in pieces]
        spans = [_audible(piece) for piece in said]
        if not all(first < end for first, end in spans):
            raise SpeechRefused(f"{voice} says nothing but silence to {text!r}")
        return _joined(text, said, spans)


def _pieces(text: str, language: str) -> list[str]:
    """Phonemes in pieces of at most 250; none where no sound is among them."""
    from kokoro_onnx.chunker import split_phonemes

    written = _HUM.sub(lambda match: _HUMS[match[0].lower()], _name_a(text))
    phonemes = " ".join(kokoro_model.tokenizer().phonemize(written, language).split())
    if len(phonemes) <= _SHORT:
        phonemes = phonemes.removesuffix(".")
    pieces = split_phonemes(phonemes, _MAX_PHONEMES)
    return [piece for piece in pieces if any(symbol.isalpha() for symbol in piece)]


def _name_a(text: str) -> str:
    """`vitamin A` and `D N A` with the letter's name, which eSpeak reads from `eigh`: it takes A for the article.

    Left alone: A at a sentence's start, and in titles (`A Tale of Two Cities`).
    """
    return _LETTER_A.sub("eigh", text)


def _audible(piece: Piece) -> tuple[int, int]:
    """First and end sample of what is to be kept: the audible frames up to the last phoneme's end, and the margins."""
    n_frame, n_margin = seconds_to_samples(_FRAME_S), seconds_to_samples(_MARGIN_S)
    frames = piece.samples[: piece.samples.size // n_frame * n_frame].reshape(-1, n_frame)
    audible = np.flatnonzero(np.square(frames).mean(axis=1) > 10 ** (_SILENCE_DBFS / 10))
    if not audible.size:
        return 0, 0
    last_phoneme = max(at for at, symbol in enumerate(piece.phonemes) if symbol.isalpha())
    spoken_end = seconds_to_samples(piece.edges_s[last_phoneme + 1] - ONSET_LAG_S + _RELEASE_S)
    end = min((int(audible[-1]) + 1) * n_frame, spoken_end) + n_margin
    return max(0, int(audible[0]) * n_frame - n_margin), min(end, piece.samples.size)


def _joined(text: str, pieces: Sequence[Piece], spans: Sequence[tuple[int, int]]) -> Speech:
    """The pieces with a short silence after each but the last, longer after a sentence than inside one."""
    parts: list[Samples] = []
    timed: list[TimedPiece] = []
    n_samples = 0
    for piece, (first, end) in zip(pieces, spans, strict=True):
        timed.append(TimedPiece(piece, samples_to_seconds(n_samples - first)))
        pause = pause_after(piece.phonemes)
        parts += [faded(piece.samples[first:end]), pause]
        n_samples += end - first + pause.size
    samples = np.concatenate(parts[:-1])
    return Speech(samples, word_times(text, timed, samples_to_seconds(samples.size)))
