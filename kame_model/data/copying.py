"""What is learnt first: to say what the oracle holds. Random words and no sound.

A word is a piece that begins one and up to two pieces that go on, as the tokenizer has them, so that no word can be
guessed from the one before. Without sound the temporal transformer learns alone. A front-end that began with this
heeded its oracle after three minutes of dialogues; one of the same width that did not had learnt next to nothing of it
after a quarter of an hour (a trial with 3.8 M parameters on two cores).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_schemas.code_layout import CodeLayout
from data_schemas.config.copying import CopyConfig
from data_schemas.errors import ConfigError
from kame_model.frames.batch import Example
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID, ZERO_ID
from kame_model.frames.oracle_stream import OracleTokenEvent, lay_oracle
from kame_model.frames.sequence import lay_sequence
from kame_model.text.tokenizer import Tokenizer

N_MORE_PIECES = (0, 0, 0, 1, 1, 2)
"""Pieces of a word after its first, drawn evenly from these: 1.7 pieces a word in the mean."""

LATEST_FRAME = 4
"""The oracle comes at a frame up to this one; silence before it."""

LAG_FRAMES = (2, 8)
"""Frames from an oracle to the first word of it: at least until its first token has been fed."""

LEAD_FRAMES = (8, 50)
"""The same where a lead stands between, up to four seconds."""

PAUSE_FRAMES = (5, 60)
"""Frames between two exchanges of one example."""

MOST_GUESSES = 4
"""Oracles at most that come before the one that is said, and are not."""

TICK_FRAMES = (4, 8)
"""From one guess to the next: about half a second."""


MOST_AGAIN = 3
"""Words at most that come again in a row, as "thirty six dollars" does."""

SLOW_FRAMES = (1, 3)
"""Frames between two pieces of a word that is said slowly."""


class Lesson(NamedTuple):
    """How hard an example is.

    Attributes:
        gap: frames at most after a word.
        n_frames: its length; 0: one exchange, however long.
        n_words: most words of an oracle, which then come again and slowly as real ones do; 0: those of the
            configuration, all different, each at one go.
    """

    gap: int
    n_frames: int = 0
    n_words: int = 0


@dataclass(frozen=True, slots=True)
class Pieces:
    """A vocabulary as copying needs it.

    Attributes:
        first: ids of pieces that begin a word.
        more: ids of pieces that go on with one.
        text_card: size of the vocabulary.
        layout: of the codes.
    """

    first: Sequence[int]
    more: Sequence[int]
    text_card: int
    layout: CodeLayout


def pieces_of(tokenizer: Tokenizer, layout: CodeLayout) -> Pieces:
    """A vocabulary's pieces, less those that stand for no text.

    Raises:
        ConfigError: it has no pieces that begin a word, or none that go on with one.
    """
    spoken = [each for each in range(PADDING_ID + 1, tokenizer.text_card) if _is_said(tokenizer, each)]
    first = [each for each in spoken if tokenizer.starts_word(each)]
    more = [each for each in spoken if not tokenizer.starts_word(each)]
    if not first or not more:
        raise ConfigError(
            f"{tokenizer.path} has no pieces that begin words, or none that go on with one.", "Train another one."
        )
    return Pieces(first, more, tokenizer.text_card, layout)


def _is_said(tokenizer: Tokenizer, token: int) -> bool:
    text = tokenizer.decode([token]).strip()
    return token != tokenizer.unknown_id and bool(text) and "\ufffd" not in text  # half a character is a byte piece


def copy_example(pieces: Pieces, config: CopyConfig, lesson: Lesson, draw: random.Random) -> Example:
    """Oracles and their words as text: one exchange, or as many as fit into the lesson's frames.

    `answer_mask` marks the tokens whose moment can be known: those that come after the end of padding, and that go on
    with a word where words are said at one go, and at gap 0 all; by them accuracy is told.
    """
    events, placed = _exchange(pieces, config, lesson, draw.randint(0, LATEST_FRAME), draw)
    while True:
        later = _exchange(pieces, config, lesson, _end(placed) + draw.randint(*PAUSE_FRAMES), draw)
        if _end(later[1]) > lesson.n_frames:
            break
        events, placed = events + later[0], placed + later[1]
    text = _laid(placed)
    silence = np.full((pieces.layout.n_codebooks, len(text)), ZERO_ID, np.int32)
    columns = lay_sequence(text, silence, silence, pieces.text_card, pieces.layout)
    columns[1:] = ZERO_ID
    known = np.append((text > PADDING_ID) & _known(placed, len(text), lesson), False)
    oracle = lay_oracle(events, len(text) + 1, pieces.text_card)
    return Example.of(columns, oracle, known, pieces.text_card, pieces.layout.card)


_Placed = tuple[int, list[int]]
"""A word's first frame and its tokens, padding among them where it is said slowly."""


def _exchange(
    pieces: Pieces, config: CopyConfig, lesson: Lesson, frame: int, draw: random.Random
) -> tuple[list[OracleTokenEvent], list[_Placed]]:
    """An oracle from a frame on and the words of it; for a share of them a newer one that takes its place.

    In long lessons guesses come before it and are never said, as while a user speaks, and its words may be late, as
    after a lead.
    """
    events: list[OracleTokenEvent] = []
    late = LAG_FRAMES
    if lesson.n_frames:
        for _ in range(draw.randint(0, MOST_GUESSES)):
            events.append(_event(frame, _words(pieces, config, lesson, draw)))
            frame += draw.randint(*TICK_FRAMES)
        late = draw.choice((LAG_FRAMES, LEAD_FRAMES))
    words = _words(pieces, config, lesson, draw)
    events.append(_event(frame, words))
    placed = _placed(words, frame + draw.randint(*late), config, lesson, draw)
    if draw.random() < config.correct_share:
        newer = draw.randint(placed[0][0], placed[-1][0])  # while the first one is being said
        words, first = _words(pieces, config, lesson, draw), newer + draw.randint(*LAG_FRAMES)
        placed = _said_before(placed, first, n_fed=newer - frame - 1)
        events.append(_event(newer, words))
        placed += _placed(words, first, config, lesson, draw)
    return events, placed


def _end(placed: list[_Placed]) -> int:
    frame, tokens = placed[-1]
    return frame + len(tokens)


def _words(pieces: Pieces, config: CopyConfig, lesson: Lesson, draw: random.Random) -> list[list[int]]:
    """An oracle's words, in the last lessons some of them more than once."""
    n_words = draw.randint(config.min_words, max(config.min_words, lesson.n_words or config.max_words))
    words: list[list[int]] = []
    while len(words) < n_words:
        if lesson.n_words and words and draw.random() < config.again_share:
            first = draw.randrange(len(words))
            words += words[first : first + draw.randint(1, MOST_AGAIN)]
        else:
            words.append([draw.choice(pieces.first), *draw.choices(pieces.more, k=draw.choice(N_MORE_PIECES))])
    return words[:n_words]


def _event(frame: int, words: list[list[int]]) -> OracleTokenEvent:
    return frame, [token for word in words for token in word]


def _placed(
    words: list[list[int]], first: int, config: CopyConfig, lesson: Lesson, draw: random.Random
) -> list[_Placed]:
    placed, frame = [], first
    for word in words:
        said = _slow(word, config, draw) if lesson.n_words else word
        placed.append((frame, said))
        frame += len(said) + draw.randint(0, lesson.gap)
    return placed


def _slow(word: list[int], config: CopyConfig, draw: random.Random) -> list[int]:
    """A word with padding before some of its later pieces."""
    said = word[:1]
    for piece in word[1:]:
        n_waited = draw.randint(*SLOW_FRAMES) if draw.random() < config.slow_share else 0
        said += [PADDING_ID] * n_waited + [piece]
    return said


def _said_before(placed: list[_Placed], frame: int, n_fed: int) -> list[_Placed]:
    """The words that end by a frame and of which all tokens had been fed: no others can be said."""
    n_tokens = accumulate(sum(token > PADDING_ID for token in word) for _, word in placed)
    return [
        (first, word)
        for (first, word), n in zip(placed, n_tokens, strict=True)
        if first + len(word) <= frame and n <= n_fed
    ]


def _laid(placed: list[_Placed]) -> NDArray[np.int32]:
    """Text on frames; the frame before words that follow padding is the end of padding."""
    text = np.full(placed[-1][0] + len(placed[-1][1]) + 2, PADDING_ID, np.int32)
    for frame, word in placed:
        text[frame : frame + len(word)] = word
    before = np.flatnonzero((text[:-1] == PADDING_ID) & (text[1:] > PADDING_ID))
    text[before] = END_OF_PADDING_ID
    return text


def _known(placed: list[_Placed], n_frames: int, lesson: Lesson) -> NDArray[np.bool_]:
    """Frames of words whose token's moment can be known: it is announced, or sure to follow the one before."""
    known = np.full(n_frames, lesson.gap == 0 and not lesson.n_words)
    end = -1
    for frame, word in placed:
        for at in range(len(word)):
            follows = word[at - 1] > PADDING_ID if at else frame == end
            known[frame + at] |= not follows or (at > 0 and not lesson.n_words)
        end = frame + len(word)
    return known
