"""Answers of other words: the oracle and the assistant's text changed alike, so that only the oracle tells what to say.

A small corpus has few answers. A model that knows them by heart needs but the first words of an oracle to go on by
itself, and says a wrong answer to a question that it has not met. Here every piece of the vocabulary stands for another
one, a beginning of a word for a beginning, in the oracle and in the answer, and for another one in each example. What
the speaker is heard to say is not those words; so while they are said, their sound is neither fed nor learnt.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kame_model.data.copying import Pieces
from kame_model.encode.rows import SpeakerTokens
from kame_model.frames.ids import PADDING_ID, ZERO_ID
from kame_model.frames.oracle_stream import OracleTokens


def substituted(own: SpeakerTokens, pieces: Pieces, draw: random.Random) -> SpeakerTokens | None:
    """The speaker's row with its answer in other words; leads, tails and what is said in other turns stay as they are.

    Args:
        own: the speaker learnt.
        pieces: of the vocabulary.
        draw: which piece stands for which.

    Returns:
        None where the words of the oracle that knows the answer do not stand in the text after it.
    """
    event = own.answering_event()
    frames = None if event is None else _frames_told(own, event)
    if event is None or frames is None:
        return None
    table = _table(pieces, draw)
    text, codes = own.text.copy(), own.codes.copy()
    text[frames] = table[text[frames]]
    codes[:, frames[0] : _heard_until(own, int(frames[-1]))] = ZERO_ID
    return replace(own, text=text, codes=codes, oracle=_in_other_words(own.oracle, event, table))


def _frames_told(own: SpeakerTokens, event: int) -> NDArray[np.int64] | None:
    """The frames of the text that say what an event tells."""
    frames = np.flatnonzero(own.text > PADDING_ID)
    frames = frames[frames > own.oracle.frame[event]]
    told = own.oracle.said(event)
    at = _find(own.text[frames], told)
    return None if at is None else frames[at : at + len(told)]


def _heard_until(own: SpeakerTokens, last: int) -> int:
    """The frame at which the word of frame `last` is surely over: that of the next one, else the row's end."""
    later = np.flatnonzero(own.text[last + 1 :] > PADDING_ID)
    return last + 1 + int(later[0]) if len(later) else len(own.text)


def _in_other_words(oracle: OracleTokens, event: int, table: NDArray[np.int32]) -> OracleTokens:
    """The events of one run, that of `event`, in other words; other runs tell of what is said in other turns."""
    last_of_runs = np.flatnonzero(oracle.skip_forbid)
    before, after = last_of_runs[last_of_runs < event], last_of_runs[last_of_runs >= event]
    first, last = (int(before[-1]) + 1 if len(before) else 0), (int(after[0]) if len(after) else len(oracle) - 1)
    preds, hints = oracle.pred_values.copy(), oracle.hint_values.copy()
    for values, offsets in ((preds, oracle.pred_offsets), (hints, oracle.hint_offsets)):
        of_run = slice(offsets[first], offsets[last + 1])
        values[of_run] = table[values[of_run]]
    return replace(oracle, pred_values=preds, hint_values=hints)


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
