"""The text stream (inner monologue): a speaker's words as tokens on frames, and back.

As in kame_finetune, all words are joined by spaces and encoded together. Each token is placed at the frame of its first
character, interpolated in the word's time, or at the next free frame. The last padding frame before tokens is the end
of padding; all other frames are padding.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data_schemas.records import WordTiming
from data_schemas.units import find_text_frame
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID
from kame_model.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, eq=False)
class TextFrames:
    """One speaker's text on T frames.

    Attributes:
        tokens: int32[T], a token, `PADDING_ID` or `END_OF_PADDING_ID`.
        word_of_frame: int32[T], the index of the word of each frame's token; -1: no token.
        n_moved_tokens: number of tokens that were moved to a later frame because their own frame was taken.
        n_cut_tokens: number of tokens dropped because no frame was left.
    """

    tokens: NDArray[np.int32]
    word_of_frame: NDArray[np.int32]
    n_moved_tokens: int
    n_cut_tokens: int


def place_text(words: Sequence[WordTiming], tokenizer: Tokenizer, n_frames: int) -> TextFrames:
    """Places a speaker's words, given in any order, on the frames of the dialogue; counts tokens moved or cut off.

    The order of tokens never changes, so the text read from the frames is the text said, for any word timings.
    """
    order = sorted(range(len(words)), key=lambda index: words[index].start_s)
    said = [words[index] for index in order]
    tokens = np.full(n_frames, PADDING_ID, np.int32)
    word_of_frame = np.full(n_frames, -1, np.int32)
    n_moved = n_cut = next_free = 0
    for token in tokenizer.place_words([word.word for word in said]):
        word = said[token.word_index]
        char_s = (word.end_s - word.start_s) / token.n_chars
        own_frame = find_text_frame(word.start_s + token.first_char * char_s)
        frame = max(own_frame, next_free)
        if frame >= n_frames:
            n_cut += 1
            continue
        tokens[frame], word_of_frame[frame] = token.id, order[token.word_index]
        if frame > 0 and tokens[frame - 1] == PADDING_ID:
            tokens[frame - 1] = END_OF_PADDING_ID
        n_moved += frame > own_frame
        next_free = frame + 1
    return TextFrames(tokens, word_of_frame, n_moved, n_cut)


def find_words(text: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Returns bool[T], true at the frames of a text whose token is part of a word."""
    is_word: NDArray[np.bool_] = (text != PADDING_ID) & (text != END_OF_PADDING_ID)
    return is_word


def read_words(tokens: Sequence[int] | NDArray[np.integer], tokenizer: Tokenizer) -> list[tuple[int, str]]:
    """Returns the words of a text stream, decoded by the tokenizer, each with the frame of its first token.

    Padding, ends of padding and negative ids are skipped, also within a word.
    """
    words: list[tuple[int, list[int]]] = []
    for frame, token in enumerate(map(int, tokens)):
        if token in (PADDING_ID, END_OF_PADDING_ID) or token < 0:
            continue
        if not words or tokenizer.starts_word(token):
            words.append((frame, []))
        words[-1][1].append(token)
    return [(frame, tokenizer.decode(pieces)) for frame, pieces in words]
