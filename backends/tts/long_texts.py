"""Splits texts that are too long for a text-to-speech engine, and joins the pieces with a pause between them.

Where texts are split changes how they sound: a change raises `SpeechStage.version`.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from backends.engine import Samples
from backends.tts.audio import fade_ends, make_pause
from backends.tts.protocol import Speech, SpeechRefused, TextToSpeech
from data_schemas.records import WordTiming
from data_schemas.units import samples_to_seconds

_PLACES = (".?!", ",;:")
"""Punctuation after which people breathe, the best first."""


def say(tts: TextToSpeech, text: str, voice: str, speed: float, take: int = 0) -> Speech:
    """Synthesises a text of any length, in pieces with pauses between them if it is too long for the engine.

    Words have times if the engine reports them for all pieces.

    Raises:
        SpeechRefused: as `tts.synthesise`; or a word is longer than the engine's limit.
        ConfigError, BackendError: as `tts.synthesise`.
    """
    if tts.max_chars is None or len(text) <= tts.max_chars:
        return tts.synthesise(text, voice, speed, take)
    pieces = list(cut(text, tts.max_chars))
    return _join_pieces(pieces, [tts.synthesise(piece, voice, speed, take) for piece in pieces])


def cut(text: str, max_chars: int) -> Iterator[str]:
    """Splits a spoken text into pieces of at most `max_chars`, which together have its words in order.

    A piece ends at the last sentence end in its second half, else at the last comma, semicolon or colon there, else
    between two words; and so that the last piece is more than a word or two, which engines say badly alone.

    Raises:
        SpeechRefused: a word is too long for a piece.
    """
    left = text.strip()
    while len(left) > max_chars:
        end = _find_end(left, max_chars)
        yield left[:end].rstrip()
        left = left[end:].lstrip()
    if left:
        yield left


def _find_end(text: str, max_chars: int) -> int:
    """Returns how many characters of a text that is too long go into the next piece.

    Raises:
        SpeechRefused: its first word alone is too long.
    """
    spaces = [at for at in range(1, max_chars + 1) if text[at] == " "]
    if not spaces:
        raise SpeechRefused(f"a word of more than {max_chars} letters: {text[:40]!r}")
    spaces = [at for at in spaces if at <= len(text) - max_chars // 4] or spaces
    for marks in _PLACES:
        ends = [at for at in spaces if at > max_chars // 2 and text[at - 1] in marks]
        if ends:
            return ends[-1]
    return spaces[-1]


def _join_pieces(texts: list[str], pieces: list[Speech]) -> Speech:
    """Joins the pieces' audio with pauses between them, and their words' times; no times if a piece has none."""
    parts: list[Samples] = []
    words: list[WordTiming] = []
    start_s = 0.0
    for text, piece in zip(texts, pieces, strict=True):
        words += [replace(each, start_s=start_s + each.start_s, end_s=start_s + each.end_s) for each in piece.words]
        pause = make_pause(text)
        parts += [fade_ends(piece.samples), pause]
        start_s += samples_to_seconds(len(piece.samples) + len(pause))
    all_timed = all(piece.words for piece in pieces)
    return Speech(np.concatenate(parts[:-1]), tuple(words) if all_timed else ())
