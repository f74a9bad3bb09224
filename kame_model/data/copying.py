"""The first lesson: say what the oracle holds. Random words, no sound, gaps between words that grow with accuracy.

A word is a piece that begins one and up to two pieces that go on, as the tokenizer has them, so that no word can be
guessed from the one before. Without sound the temporal transformer learns alone. A front-end that began with this
heeded its oracle after three minutes of dialogues; one of the same width that did not had learnt next to nothing of it
after a quarter of an hour (a trial with 3.8 M parameters on two cores).
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_schemas import ids
from data_schemas.config.training import CopyConfig
from data_schemas.errors import ConfigError
from kame_model.data.example import Judged
from kame_model.data.loader import ALONE, MicroBatch, Share
from kame_model.frames.batch import Example, collate
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID, ZERO_ID
from kame_model.frames.oracle_stream import OracleTokenEvent, lay_oracle
from kame_model.frames.sequence import lay_sequence
from kame_model.text.tokenizer import Tokenizer

N_MORE_PIECES = (0, 0, 0, 1, 1, 2)
"""Pieces of a word after its first, drawn evenly from these: 1.7 pieces a word in the mean."""

LATEST_FRAME = 4
"""The oracle comes at a frame up to this one; silence before it."""

LAG_FRAMES = (2, 8)
"""Frames from an oracle to the first word of it: at least until its first token has been fed, at most a short lead."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """A vocabulary as copying needs it.

    Attributes:
        first: ids of pieces that begin a word.
        more: ids of pieces that go on with one.
        text_card: size of the vocabulary.
        card: entries of a codebook.
        n_codebooks: codebooks of one voice.
    """

    first: Sequence[int]
    more: Sequence[int]
    text_card: int
    card: int
    n_codebooks: int


def pieces_of(tokenizer: Tokenizer, card: int, n_codebooks: int) -> Pieces:
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
    return Pieces(first, more, tokenizer.text_card, card, n_codebooks)


def _is_said(tokenizer: Tokenizer, token: int) -> bool:
    text = tokenizer.decode([token]).strip()
    return token != tokenizer.unknown_id and bool(text) and "\ufffd" not in text  # half a character is a byte piece


class CopyLoader:
    """Micro-batches of random words; each a pure function of its number and of the gap.

    Its state is the number of the next step, the gap, and the running accuracy at that gap.

    Args:
        pieces: of the vocabulary.
        config: sizes and the curriculum.
        seed: of everything drawn.
        accumulation: micro-batches of a step, over all processes.
        share: this process's part of them.
    """

    def __init__(self, pieces: Pieces, config: CopyConfig, seed: int, accumulation: int, share: Share = ALONE) -> None:
        self._pieces, self._config, self._seed = pieces, config, seed
        self._accumulation, self._share = accumulation, share
        self._step, self._gap, self._accuracy, self._finished = 0, 0, 0.0, False

    @property
    def is_finished(self) -> bool:
        """Whether words are foreseen well enough at the widest gap."""
        return self._finished

    def next_step(self) -> list[MicroBatch]:
        """See `Loader`."""
        first = self._step * self._accumulation
        mine = range(first + self._share.rank, first + self._accumulation, self._share.world)
        self._step += 1
        return [self._batch(number) for number in mine]

    def observe(self, share_right: float | None) -> dict[str, float]:
        """Widens the gap when the running accuracy is high enough; shows both."""
        if share_right is not None:
            kept = self._config.smoothing
            self._accuracy = kept * self._accuracy + (1 - kept) * share_right
        shown = {"gap": float(self._gap), "accuracy": self._accuracy}
        if self._accuracy >= self._config.accuracy:
            self._finished = self._gap == self._config.max_gap_frames
            if not self._finished:
                self._gap, self._accuracy = self._gap + 1, 0.0
        return shown

    def state_dict(self) -> dict[str, Any]:
        """See `Loader`."""
        return {"step": self._step, "gap": self._gap, "accuracy": self._accuracy, "finished": self._finished}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Loader`."""
        self._step, self._gap = state["step"], state["gap"]
        self._accuracy, self._finished = state["accuracy"], state["finished"]

    def _batch(self, number: int) -> MicroBatch:
        draw = random.Random(ids.seed_for("copy", self._seed, number))
        examples = [copy_example(self._pieces, self._config, self._gap, draw) for _ in range(self._config.batch_size)]
        return MicroBatch(number, collate(examples), [])


def judged(pieces: Pieces, config: CopyConfig, n_examples: int, seed: int) -> list[Judged]:
    """Examples at the widest gap that no step trains on, each beside the oracle of the one after it."""
    draw = random.Random(ids.seed_for("copy-validation", seed))
    examples = [copy_example(pieces, config, config.max_gap_frames, draw) for _ in range(n_examples)]
    followers = [*examples[1:], *examples[:1]]
    return [
        Judged(each, _fitted(other.oracle, each.n_positions)) for each, other in zip(examples, followers, strict=True)
    ]


def copy_example(pieces: Pieces, config: CopyConfig, gap: int, draw: random.Random) -> Example:
    """One oracle and its words as text; for a share of examples a second one that takes the first one's place.

    `answer_mask` marks the tokens whose moment can be known: those that go on with a word or come after the end of
    padding, and at gap 0 all; by them accuracy is told.
    """
    frame = draw.randint(0, LATEST_FRAME)
    words = _words(pieces, config, draw)
    events, placed = [_event(frame, words)], _placed(words, frame + draw.randint(*LAG_FRAMES), gap, draw)
    if draw.random() < config.correct_share:
        newer = draw.randint(placed[0][0], placed[-1][0])  # while the first one is being said
        words, first = _words(pieces, config, draw), newer + draw.randint(*LAG_FRAMES)
        placed = _said_before(placed, first, n_fed=newer - frame - 1)
        events, placed = [*events, _event(newer, words)], placed + _placed(words, first, gap, draw)
    text = _laid(placed)
    silence = np.full((pieces.n_codebooks, len(text)), ZERO_ID, np.int32)
    columns = lay_sequence(text, silence, silence, pieces.text_card, pieces.card)
    columns[1:] = ZERO_ID
    known = np.append((text > PADDING_ID) & (_within_words(placed, len(text)) | (gap == 0)), False)
    oracle = lay_oracle(events, len(text) + 1, pieces.text_card)
    return Example.of(columns, oracle, known, pieces.text_card, pieces.card)


_Placed = tuple[int, list[int]]
"""A word's first frame and its tokens."""


def _words(pieces: Pieces, config: CopyConfig, draw: random.Random) -> list[list[int]]:
    return [
        [draw.choice(pieces.first), *draw.choices(pieces.more, k=draw.choice(N_MORE_PIECES))]
        for _ in range(draw.randint(config.min_words, config.max_words))
    ]


def _event(frame: int, words: list[list[int]]) -> OracleTokenEvent:
    return frame, [token for word in words for token in word]


def _placed(words: list[list[int]], first: int, gap: int, draw: random.Random) -> list[_Placed]:
    placed, frame = [], first
    for word in words:
        placed.append((frame, word))
        frame += len(word) + draw.randint(0, gap)
    return placed


def _said_before(placed: list[_Placed], frame: int, n_fed: int) -> list[_Placed]:
    """The words that end by a frame and of which all tokens had been fed: no others can be said."""
    n_tokens = accumulate(len(word) for _, word in placed)
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


def _within_words(placed: list[_Placed], n_frames: int) -> NDArray[np.bool_]:
    """Frames of tokens that go on with a word or follow a frame without one."""
    within = np.zeros(n_frames, np.bool_)
    end = -1
    for frame, word in placed:
        within[frame + (frame == end) : frame + len(word)] = True
        end = frame + len(word)
    return within


def _fitted(stream: NDArray[np.int32], n_positions: int) -> NDArray[np.int32]:
    fitted = np.full(n_positions, PADDING_ID, np.int32)
    fitted[: len(stream)] = stream[:n_positions]
    return fitted
