"""Dialogues drawn as text, a column a frame, and drawn again after something was done to them.

    user    QQQQQQ..............
    own     ..........ll..abc...
    oracle  ......|abc..........

A letter is a token of a word and its sound, a point silence. `|` is the start of an oracle: what is fed at the input
position at which the text of the column is to be said.
"""

from collections.abc import Iterable

import numpy as np

from kame_model.data.oracle_feed import FedEvent
from kame_model.data.splicing import DialogueSides, TokenClip, mark_padding_ends
from kame_model.encode.rows import SpeakerTokens
from kame_model.frames.ids import PADDING_ID, ZERO_ID
from kame_model.frames.oracle_stream import OracleTokenEvent, OracleTokens, make_oracle_stream

START = ord("|")
SILENT_CODE, UNHEARD = ord("."), "~"
ANSWERS = "abcdefghijk"
"""Letters of answers; leads and tails have others."""


def clip(said: str) -> TokenClip:
    """Makes a clip of a drawn text: its tokens, and its sound in two codebooks that are alike."""
    codes = np.array([[ord(each) for each in said]] * 2, np.int16)
    text = np.array([PADDING_ID if each == "." else ord(each) for each in said], np.int32)
    return TokenClip(mark_padding_ends(text), codes)


def dialogue(user: str, own: str, *oracle: tuple[int, str]) -> DialogueSides:
    """Makes a dialogue from the drawn texts of its user and of its own side.

    Letters of `ANSWERS` are part of the answer.

    Args:
        oracle: frame and drawn text of each event; the last one knows the answer, and those before are guesses.
    """
    width = max(len(user), len(own))
    sides = []
    for said in (user.ljust(width, "."), own.ljust(width, ".")):
        text, codes = clip(said)
        mask = np.array([each in ANSWERS for each in said])
        sides.append(SpeakerTokens(text, codes, OracleTokens.pack([], [], [], [], [], []), mask))
    tokens = [[ord(each) for each in told] for _, told in oracle]
    n_guesses = len(oracle) - 1
    events = OracleTokens.pack(
        frame=[frame for frame, _ in oracle],
        ratio=[0.5] * n_guesses + [1.0] * bool(oracle),
        level=[0] * len(oracle),
        skip_forbid=[False] * n_guesses + [True] * bool(oracle),
        preds=tokens,
        hints=[[]] * len(oracle),
    )
    other, speaker = sides
    return DialogueSides(SpeakerTokens(speaker.text, speaker.codes, events, speaker.answer_mask), other)


def fed_at(frame: int, told: str, event: int = 0) -> FedEvent:
    """Makes an event that comes at a frame; a point in its drawn text is a gap."""
    return FedEvent(event, frame, [PADDING_ID if each == "." else ord(each) for each in told])


def words(text: np.ndarray) -> str:
    """Draws a text as letters, and padding and the end of padding as points.

    Asserts that the end of padding is before each word after a pause, and nowhere else.
    """
    assert (mark_padding_ends(text) == text).all(), "the end of padding does not stand before each word after a pause"
    return "".join("." if token <= PADDING_ID else chr(token) for token in text.tolist())


def sound(side: SpeakerTokens) -> str:
    """Draws a sound as letters, and `UNHEARD` where it is not fed; asserts that its two codebooks are alike."""
    assert (side.codes[0] == side.codes[1]).all()
    return "".join(UNHEARD if code == ZERO_ID else chr(code) for code in side.codes[0].tolist())


def picture(sides: DialogueSides, fed: Iterable[FedEvent] | None = None) -> str:
    """Draws the three lines of a dialogue; asserts that its arrays have the right lengths and types.

    Args:
        fed: events of the line of the oracle; None for those of the dialogue itself.
    """
    events: list[OracleTokenEvent] = (
        sides.own.oracle.list_events() if fed is None else [(each.frame, each.tokens) for each in fed]
    )
    stream = make_oracle_stream(events, sides.n_frames, START).tolist()
    oracle = "".join("." if token == PADDING_ID else chr(token) for token in stream)
    for side in sides:
        assert len(side.text) == side.codes.shape[1] == len(side.answer_mask)
        dtypes = [each.dtype for each in (side.text, side.codes, side.answer_mask)]
        assert dtypes == [np.dtype(each) for each in (np.int32, np.int16, np.bool_)]
    return "\n".join([words(sides.other.text), words(sides.own.text), oracle])
