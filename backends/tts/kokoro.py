"""Kokoro-82M: the embedded text-to-speech engine (24 kHz, CPU, no network).

Phonemes come from eSpeak NG, audio from an int8 ONNX model without random numbers: the same arguments give the same
samples on one kind of processor. One core takes about half as long as the speech lasts. The published graph outputs
only the audio; the phonemes' durations, an intermediate result, are added as a second output when it is loaded.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.engine import INSTALL_SPEECH, Samples
from backends.tts import kokoro_assets
from backends.tts.audio import fade_ends, make_pause
from backends.tts.protocol import Speech, SpeechRefused, Voice
from data_schemas import ids
from data_schemas.errors import BackendError, ConfigError
from data_schemas.records import WordTiming
from data_schemas.units import round_s, samples_to_seconds, seconds_to_samples

DURATION_UNIT_S = 0.025
"""Durations count in 600 samples at 24 kHz; their sum is exactly the audio's length."""

_DURATIONS = "/encoder/Clip_output_0"


@dataclass(frozen=True, slots=True, eq=False)
class SpeechPiece:
    """A piece of speech as the model returned it.

    Symbol k of `phonemes` lasts from `edges_s[k]` to `edges_s[k + 1]`, float64 [n_phonemes + 1], by its durations.
    """

    phonemes: str
    samples: Samples
    edges_s: NDArray[np.float64]


def _synthesise_piece(phonemes: str, table: kokoro_assets.VoiceTable, speed: float) -> SpeechPiece:
    """Synthesises at most 510 phonemes; those outside the model's vocabulary are omitted, also in the result."""
    known = load_tokenizer().known(phonemes)
    tokens = load_tokenizer().tokenize(known)
    inputs = {
        "tokens": np.array([[0, *tokens, 0]], dtype=np.int64),
        "style": table[np.newaxis, len(tokens) - 1],  # [1, 256]
        "speed": np.array([speed], dtype=np.float32),
    }
    sound, durations = load_session().run(["audio", _DURATIONS], inputs)
    return SpeechPiece(
        known, sound.reshape(-1), np.cumsum(durations.reshape(-1)[:-1], dtype=np.float64) * DURATION_UNIT_S
    )


@cache
def load_tokenizer() -> Any:
    """Loads the tokenizer: text to phonemes by eSpeak NG, and phonemes to the model's tokens.

    Raises:
        BackendError: eSpeak does not load.
    """
    from kokoro_onnx.tokenizer import Tokenizer

    try:
        return Tokenizer()
    except (RuntimeError, OSError) as error:
        raise BackendError(f"eSpeak NG does not load: {error}.", INSTALL_SPEECH) from error


@cache
def load_session() -> Any:
    """Loads the model, once per process, with the phonemes' durations as its second output.

    It uses one thread: processes, not threads, use the cores. The model's file is created if it is missing.

    Raises:
        BackendError: as `kokoro_assets.get_model_path`.
    """
    import onnx

    from backends.workers.engines.onnx_session import LowMemorySession

    model = onnx.load(str(kokoro_assets.get_model_path()))  # the file's SHA-256 has been checked
    model.graph.output.append(onnx.helper.make_tensor_value_info(_DURATIONS, onnx.TensorProto.FLOAT, None))
    return LowMemorySession(model.SerializeToString())


ONSET_LAG_S = 0.04
"""How much later a phoneme starts by its duration than in the audio.

Measured on eight voices at speeds 0.9 to 1.2: sounds after a pause start 37 ms before their durations say (median of
217 onsets of energy), vowels after "s" 45 ms (300 edges in the share of energy above 4 kHz), and "s" after a vowel 35
ms before the space between the two words starts, 100 ms before the space ends. So the lag is 40 ms, and inside a phrase
the sound of a word begins with the space before it."""

_WORD = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*")
_MARKS = re.compile(r"[.,?!;:]")


@dataclass(frozen=True, slots=True, eq=False)
class TimedPiece:
    """A piece, and the time in the whole audio at which its own time 0 would be, in seconds."""

    piece: SpeechPiece
    offset_s: float


def find_word_times(text: str, pieces: Sequence[TimedPiece], duration_s: float) -> tuple[WordTiming, ...]:
    """Makes one timing per word of `text`, in order and inside the audio; none if phonemes and words do not match.

    They match if between any two punctuation marks there are as many groups of phonemes as words, and each lasts.
    """
    words = _WORD.findall(text)
    spans = [
        _find_span(each, match)
        for each in pieces
        for match in re.finditer(r"\S+", each.piece.phonemes)
        if _is_said(match[0])
    ]
    if not _have_equal_counts(text, " ".join(each.piece.phonemes for each in pieces)):
        return ()
    edges = [(max(start_s, 0.0), min(end_s, duration_s)) for start_s, end_s in spans]
    if not all(start_s < end_s for start_s, end_s in edges):
        return ()  # a word without its own sound
    return tuple(
        WordTiming(word=word, start_s=round_s(start_s), end_s=round_s(end_s), score=0.0, method="kokoro")
        for word, (start_s, end_s) in zip(words, edges, strict=True)
    )


def _have_equal_counts(text: str, phonemes: str) -> bool:
    """Returns whether there are as many groups of phonemes as words between any two punctuation marks."""
    of_text = [len(_WORD.findall(part)) for part in _MARKS.split(text)]
    of_phonemes = [sum(map(_is_said, part.split())) for part in _MARKS.split(phonemes)]
    return [n for n in of_text if n] == [n for n in of_phonemes if n]


def _is_said(group: str) -> bool:
    """Returns whether a group of phonemes has a sound, so that it is more than punctuation."""
    return any(symbol.isalpha() for symbol in group)


def _find_span(piece: TimedPiece, group: re.Match[str]) -> tuple[float, float]:
    """Returns start and end of a group of phonemes, without the marks after it, in seconds of the whole audio.

    Inside a phrase the group begins with the space before it; times are corrected by `ONSET_LAG_S`.
    """
    edges_s, shift_s = piece.piece.edges_s, piece.offset_s - ONSET_LAG_S
    before = piece.piece.phonemes[: group.start()]
    in_phrase = before[-1:] == " " and _MARKS.match(before[-2:-1]) is None
    n_said = len(group[0].rstrip(".,?!;:"))
    return float(edges_s[group.start() - in_phrase]) + shift_s, float(edges_s[group.start() + n_said]) + shift_s


_RECIPE = 2
"""Version of this file's processing of text and audio; raise it when the samples or word times change."""

_ENGINE = ("kokoro-onnx", "phonemizer", "espeakng-loader", "onnxruntime")
"""Packages whose versions can change the audio: splitting and vocabulary; words to phonemes (two); the arithmetic."""

SPEED_MIN, SPEED_MAX = 0.5, 2.0
"""The range that the model supports (kokoro-onnx, `Kokoro._prepare`)."""

_MAX_PHONEMES = 250
"""Longest piece synthesised at once, about 18 s. The model takes 510, but its memory grows with the longest piece, and
people breathe before that."""

_SHORT = 12
"""A text of at most this many phonemes is synthesised without its full stop: with it some voices add a syllable ("Yes,
sir", "Two, uh"). Of six single words by seven voices Moonshine recognised 25 of 42 with the stop and 32 without."""

_SILENCE_DBFS = -60.0  # Kokoro's pauses are below -65 dBFS, including breaths; the quietest consonants above -57
_MARGIN_S = 0.05  # silence kept at both ends: the mixing stage adds the pauses
_RELEASE_S = 0.1  # release of the last phoneme after its end; later sounds are babble
_FRAME_S = 0.01
_LETTER_A = re.compile(r"(?<=[A-Za-z,;:] )A\b(?! [A-Z][a-z]|')|\bA(?= [A-Z]\b)")
_HUMS = {"mm": "um", "hmm": "hum", "mhm": "um hum"}  # eSpeak spells "mm" letter by letter
_HUM = re.compile(rf"\b(?:{'|'.join(_HUMS)})\b", re.IGNORECASE)


class Kokoro:
    """Synthesises English with the installed voices; one model per process, loaded on first use.

    Raises:
        BackendError: the voices do not load; see `kokoro_assets.load_voices`.
    """

    name = "kokoro"
    has_speed = True
    max_chars = None  # it splits by phonemes itself
    max_calls_in_flight = 1

    def __init__(self) -> None:
        self._tables = kokoro_assets.load_voices()
        self._voices = tuple(
            Voice(
                name=name,
                language="en-gb" if name.startswith("b") else "en-us",
                licence=kokoro_assets.VOICE_LICENCE,
                digest=kokoro_assets.digest_voice(table),
            )
            for name, table in self._tables.items()
        )

    @property
    def digest(self) -> str:
        """Digest of the model, engine versions and `_RECIPE`; voices have their own digests."""
        return ids.digest("kokoro", _RECIPE, kokoro_assets.MODEL_SHA256, [[name, version(name)] for name in _ENGINE])

    def list_voices(self) -> Sequence[Voice]:
        """Returns the 28 English voices, best first, or five Japanese speakers' before `make voices`."""
        return self._voices

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        """Synthesises `text`, float32 [n_samples] at 24 kHz, with at most 50 ms of silence at either end.

        A text of more than 250 phonemes is synthesised in pieces, split at sentences, then clauses, then words. Words
        have times if the phonemes show every word separately; they often do not ("of the" is one group to eSpeak).
        `take` has no effect.

        Raises:
            SpeechRefused: there is nothing to say in `text`, or its audio is silent.
            ConfigError: there is no such voice, or `speed` is not from 0.5 to 2.
            BackendError: eSpeak or the model does not load.
        """
        if voice not in self._tables:
            raise ConfigError(f"Kokoro has no voice {voice!r} here.", f"Choose one of: {', '.join(self._tables)}.")
        if not SPEED_MIN <= speed <= SPEED_MAX:
            raise ConfigError(f"Kokoro cannot speak at speed {speed}.", f"Choose from {SPEED_MIN} to {SPEED_MAX}.")
        pieces = _phonemise(text, "en-gb" if voice.startswith("b") else "en-us")
        if not pieces:
            raise SpeechRefused(f"there is nothing to say in {text!r}")
        said = [_synthesise_piece(piece, self._tables[voice], speed) for piece in pieces]
        spans = [_find_audible(piece) for piece in said]
        if not all(first < end for first, end in spans):
            raise SpeechRefused(f"{voice} says nothing but silence to {text!r}")
        return _join_pieces(text, said, spans)


def _phonemise(text: str, language: str) -> list[str]:
    """Converts text to phonemes in pieces of at most 250; empty if there is no sound among them.

    A short text loses its full stop (`_SHORT`); hums ("mm") and the letter A are respelt for eSpeak.
    """
    from kokoro_onnx.chunker import split_phonemes

    written = _HUM.sub(lambda match: _HUMS[match[0].lower()], _name_letter_a(text))
    phonemes = " ".join(load_tokenizer().phonemize(written, language).split())
    if len(phonemes) <= _SHORT:
        phonemes = phonemes.removesuffix(".")
    pieces = split_phonemes(phonemes, _MAX_PHONEMES)
    return [piece for piece in pieces if any(symbol.isalpha() for symbol in piece)]


def _name_letter_a(text: str) -> str:
    """Replaces A by `eigh` in `vitamin A` and `D N A`, because eSpeak takes the letter for the article.

    Not replaced: A at a sentence's start, and in titles (`A Tale of Two Cities`).
    """
    return _LETTER_A.sub("eigh", text)


def _find_audible(piece: SpeechPiece) -> tuple[int, int]:
    """Returns first sample and end (exclusive) of what to keep: audible frames up to the last phoneme, with margins.

    Both are 0 if nothing is audible.
    """
    n_frame, n_margin = seconds_to_samples(_FRAME_S), seconds_to_samples(_MARGIN_S)
    frames = piece.samples[: piece.samples.size // n_frame * n_frame].reshape(-1, n_frame)
    audible = np.flatnonzero(np.square(frames).mean(axis=1) > 10 ** (_SILENCE_DBFS / 10))
    if not audible.size:
        return 0, 0
    last_phoneme = max(at for at, symbol in enumerate(piece.phonemes) if symbol.isalpha())
    spoken_end = seconds_to_samples(piece.edges_s[last_phoneme + 1] - ONSET_LAG_S + _RELEASE_S)
    end = min((int(audible[-1]) + 1) * n_frame, spoken_end) + n_margin
    return max(0, int(audible[0]) * n_frame - n_margin), min(end, piece.samples.size)


def _join_pieces(text: str, pieces: Sequence[SpeechPiece], spans: Sequence[tuple[int, int]]) -> Speech:
    """Joins the spans of the pieces to speech, with pauses between them by their punctuation, and finds word times."""
    parts: list[Samples] = []
    timed: list[TimedPiece] = []
    n_samples = 0
    for piece, (first, end) in zip(pieces, spans, strict=True):
        timed.append(TimedPiece(piece, samples_to_seconds(n_samples - first)))
        pause = make_pause(piece.phonemes)
        parts += [fade_ends(piece.samples[first:end]), pause]
        n_samples += end - first + pause.size
    samples = np.concatenate(parts[:-1])
    return Speech(samples, find_word_times(text, timed, samples_to_seconds(samples.size)))
