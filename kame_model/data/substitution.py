"""Answers of other words: the oracle and the assistant's text changed alike, so that only the oracle tells what to say.

A small corpus has few answers. A model that knows them by heart needs but the first words of an oracle to go on by
itself, and says a wrong answer to a question that it has not met. Here every piece of the vocabulary stands for another
one, a beginning of a word for a beginning, in the oracle and in the answer, and for another one in each example. What
the speaker is heard to say is not those words; so from the answer on their sound is neither fed nor learnt.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kame_model.data.copying import Pieces
from kame_model.encode.rows import SpeakerTokens
from kame_model.frames.ids import PADDING_ID, ZERO_ID


def substituted(own: SpeakerTokens, pieces: Pieces, draw: random.Random) -> SpeakerTokens | None:
    """The speaker's row with its answer in other words; leads stay as they are.

    Args:
        own: the speaker learnt.
        pieces: of the vocabulary.
        draw: which piece stands for which.

    Returns:
        None where the words of the oracle that knows the answer do not stand in the text after it.
    """
    start = _answer_start(own)
    if start is None:
        return None
    table = _table(pieces, draw)
    text, codes = own.text.copy(), own.codes.copy()
    after = text[start:]
    after[after > PADDING_ID] = table[after[after > PADDING_ID]]
    codes[:, start:] = ZERO_ID
    oracle = replace(own.oracle, pred_values=table[own.oracle.pred_values], hint_values=table[own.oracle.hint_values])
    return replace(own, text=text, codes=codes, oracle=oracle)


def _answer_start(own: SpeakerTokens) -> int | None:
    """The frame at which the text begins to say what the last oracle of the question tells."""
    answer = np.flatnonzero(own.answer_mask)
    if len(answer) == 0:
        return None
    heard = np.flatnonzero((own.oracle.ratio >= 1) & (own.oracle.frame < answer[0]))
    if len(heard) == 0:
        return None
    told = own.oracle.said(int(heard[-1]))
    frames = np.flatnonzero(own.text > PADDING_ID)
    frames = frames[frames > own.oracle.frame[heard[-1]]]
    at = _find(own.text[frames], told)
    return None if at is None else int(frames[at])


def _find(text: NDArray[np.int32], told: Sequence[int] | NDArray[np.int32]) -> int | None:
    n_told = len(told)
    if n_told == 0 or len(text) < n_told:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(text, n_told)
    found = np.flatnonzero((windows == np.asarray(told)).all(axis=1))
    return int(found[0]) if len(found) else None


def _table(pieces: Pieces, draw: random.Random) -> NDArray[np.int32]:
    """By id the id that stands for it; what is no piece of a word stands for itself."""
    generator = np.random.default_rng(draw.getrandbits(64))
    table = np.arange(pieces.text_card + 1, dtype=np.int32)
    for kind in (pieces.first, pieces.more):
        among = np.asarray(kind, np.int32)
        table[among] = generator.permutation(among)
    return table
