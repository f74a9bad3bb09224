"""A dialogue as one sequence of columns, its labels, and chunks of long sequences.

Rows of a column: 0 the text of the speaker learnt, 1…n the codes of the own voice, n + 1…2n those of the other's.
Columns before the delays: 0 the initial ids, 1…T the frames 0…T - 1, T + 1 the tail. The model reads columns 0…T and
predicts, at each, the text and the own codes of the next one.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_schemas.code_layout import CodeLayout
from kame_model.frames.ids import PADDING_ID, ZERO_ID
from kame_model.frames.oracle_stream import OracleTokenEvent

MAX_COLUMNS = 512
"""Longest chunk of the released recipe (kame_finetune, `max_length`): 41 s. `data.max_columns` overrides it."""


class Chunk(NamedTuple):
    """Columns `[start, stop)` of a sequence."""

    start: int
    stop: int


def make_columns(
    text: NDArray[np.int32],
    own: NDArray[np.integer],
    other: NDArray[np.integer],
    text_card: int,
    layout: CodeLayout,
) -> NDArray[np.int32]:
    """Returns a dialogue as the columns of one sequence, with delays applied.

    A row with a delay of d frames starts with d more initial ids. After its last token comes text padding, or the
    layout's `card`, which is not a code and so never a label: in the tail, the text is trained, codes without delay are
    not, and codes with a delay of one are those of the last frame. Anything later is cut off.

    Args:
        text: int32[T], text on frames of the speaker learnt.
        own: [n_codebooks, T], codes of that speaker; `ZERO_ID` where there is none.
        other: [n_codebooks, T], codes of the other one.
        text_card: initial id of the text.
        layout: delays of the codes; its `card` is their initial id.

    Returns:
        int32[1 + 2 * n_codebooks, T + 2].

    Raises:
        ValueError: if the three differ in length, or the voices in their number of codebooks.
    """
    n_codebooks, n_frames = own.shape
    if text.shape != (n_frames,) or other.shape != own.shape:
        raise ValueError(f"text {text.shape}, own {own.shape} and other {other.shape} are not of one dialogue")
    columns = np.full((1 + 2 * n_codebooks, n_frames + 2), layout.card, np.int32)
    columns[0] = PADDING_ID
    columns[0, 0] = text_card
    for row, (tokens, delay) in enumerate(zip((text, *own, *other), layout.of_rows, strict=True)):
        kept = tokens[: max(0, n_frames + 1 - delay)]
        columns[row, 1 + delay : 1 + delay + len(kept)] = kept
    return columns


def make_labels(columns: NDArray[np.int32], text_card: int, card: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns the labels of the S input positions of S + 1 columns: the next column without initial ids.

    Args:
        columns: int32[1 + 2 * n_codebooks, S + 1], delayed; a whole sequence or a chunk of one.

    Returns:
        Text, int32[S], and the own voice's codes, int32[n_codebooks, S]; `ZERO_ID` where there is no label.
    """
    n_codebooks = len(columns) // 2
    text, audio = columns[0, 1:], columns[1 : 1 + n_codebooks, 1:]
    return np.where(text < text_card, text, ZERO_ID), np.where(audio < card, audio, ZERO_ID)


def cut_chunks(n_columns: int, max_columns: int = MAX_COLUMNS) -> list[Chunk]:
    """Cuts a sequence into as few chunks as possible, whose lengths differ by at most one column.

    Only the first chunk has the initial column. The first column of a later chunk is input but never a label.
    """
    n_chunks = -(-n_columns // max_columns)
    shorter, n_longer = divmod(n_columns, n_chunks)
    stops = np.cumsum([shorter + (index < n_longer) for index in range(n_chunks)]).tolist()
    return [Chunk(start, stop) for start, stop in zip([0, *stops], stops, strict=False)]


def select_events(events: Iterable[OracleTokenEvent], chunk: Chunk) -> list[OracleTokenEvent]:
    """Returns the oracle events that start in a chunk, with frames relative to the chunk for `make_oracle_stream`.

    An event at frame f starts at column f + 1. The rest of an event that started in an earlier chunk is lost, as in
    the released recipe.
    """
    return [(frame - chunk.start, tokens) for frame, tokens in events if chunk.start <= frame + 1 < chunk.stop]
