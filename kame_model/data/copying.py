"""Makes copying lessons: random words without audio, to learn to say the oracle once, and to wait. The first stage.

A word is one piece that begins words and up to two that continue them, so no word can be predicted from the previous
one. Without audio, only the temporal transformer learns.

A lesson is made in two steps. `draw_script` determines what does not depend on the speaker: the oracle stream, as the
server's queue feeds it, and leads, which no oracle contains. `make_example` then goes through the frames as the speaker
does. At each frame it knows the right next token, whatever was said so far: the longest prefix of the current oracle
that occurs, in order, in what was said counts as said; the piece after it is next, or padding if there is none. So what
was said may contain slips, or the model's own guesses.
"""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data_schemas.code_layout import CodeLayout
from data_schemas.config.copying import CopyConfig
from data_schemas.errors import ConfigError
from kame_model.frames.batch import Example
from kame_model.frames.cue import Cue
from kame_model.frames.ids import END_OF_PADDING_ID, PADDING_ID, ZERO_ID
from kame_model.frames.oracle_stream import OracleQueue, make_oracle_stream
from kame_model.frames.sequence import make_columns
from kame_model.text.tokenizer import Tokenizer

N_MORE_PIECES = (0, 0, 0, 1, 1, 2)
"""Number of pieces of a word after the first, drawn from these: 1.7 pieces per word on average."""

LAG_FRAMES = (2, 8)
"""Frames from an oracle to its first word: at least until its first token has been fed."""

TICK_FRAMES = (4, 8)
"""Frames from one guess of a back-end to the next while the user speaks: about half a second."""

MOST_SLOW_FRAMES = 3
"""Maximum number of frames before a later piece of a word that is said slowly."""

MOST_TOGETHER = 4
"""Maximum length, in words or frames, of what is drawn at once: repeated words, a lead, a slip."""

TRIAL_WORDS = (5, 12)
"""Range of the number of oracle words in a trial of free running."""


@dataclass(frozen=True, slots=True)
class WordPieces:
    """The parts of a vocabulary that copying needs.

    Attributes:
        first: ids of pieces that begin a word.
        more: ids of pieces that continue one.
        text_card: size of the vocabulary.
        layout: layout of the codes.
    """

    first: Sequence[int]
    more: Sequence[int]
    text_card: int
    layout: CodeLayout


def get_pieces(tokenizer: Tokenizer, layout: CodeLayout) -> WordPieces:
    """Returns a vocabulary's pieces that are text, sorted into those that begin a word and those that continue one.

    Raises:
        ConfigError: it has no pieces that begin a word, or none that continue one.
    """
    spoken = [each for each in range(PADDING_ID + 1, tokenizer.text_card) if _is_text(tokenizer, each)]
    first = [each for each in spoken if tokenizer.starts_word(each)]
    more = [each for each in spoken if not tokenizer.starts_word(each)]
    if not first or not more:
        raise ConfigError(
            f"{tokenizer.path} has no pieces that begin words, or none that continue one.",
            "Train another one with `kame text train`.",
        )
    return WordPieces(first, more, tokenizer.text_card, layout)


def _is_text(tokenizer: Tokenizer, token: int) -> bool:
    """Returns whether a token is text: not unknown, not only a space, and not part of a character."""
    text = tokenizer.decode([token]).strip()
    return token != tokenizer.unknown_id and bool(text) and "\ufffd" not in text  # half a character is a byte piece


class CopyTrial(NamedTuple):
    """Input of a model that runs freely: the oracle stream, int32[S], and the tokens that it contains."""

    oracle: NDArray[np.int32]
    tokens: list[int]


@dataclass(slots=True)
class CopyScript:
    """What does not depend on the speaker in an example of S positions.

    Attributes:
        oracle: int32[S], the id fed at each position.
        first_frame: for each position at which an oracle starts, the frame of its first word; an oracle that is not
            included is a guess, which is not said.
        untold: for each frame of a lead, its token or the padding around it.
        max_gap: maximum number of frames between two words.
        slow_share: share of the later pieces of words that come frames after the previous one.
        slip_share: share of the frames at which a slip begins.
    """

    oracle: NDArray[np.int32]
    first_frame: dict[int, int] = field(default_factory=dict)
    untold: dict[int, int] = field(default_factory=dict)
    max_gap: int = 0
    slow_share: float = 0.0
    slip_share: float = 0.0


def draw_words(pieces: WordPieces, n_words: int, again_share: float, draw: random.Random) -> list[list[int]]:
    """Draws words as their pieces; for a share of them, up to `MOST_TOGETHER` earlier words are repeated in a row."""
    words: list[list[int]] = []
    while len(words) < n_words:
        if words and draw.random() < again_share:
            first = draw.randrange(len(words))
            words += words[first : first + draw.randint(1, MOST_TOGETHER)]
        else:
            words.append([draw.choice(pieces.first), *draw.choices(pieces.more, k=draw.choice(N_MORE_PIECES))])
    return words[:n_words]


def draw_script(pieces: WordPieces, config: CopyConfig, hardness: float, draw: random.Random) -> CopyScript:
    """Draws the script of a lesson: random oracles, one after the other, until its frames are full.

    Args:
        pieces: pieces of the vocabulary.
        config: the difficulty of the last lesson.
        hardness: 0 to 1; at 0, oracles come one after the other, complete, and are said at once.
        draw: generator of everything that is drawn.
    """
    n_frames = round(config.min_frames + hardness * (config.max_frames - config.min_frames))
    script = CopyScript(
        np.full(n_frames, PADDING_ID, np.int32),
        max_gap=round(hardness * config.max_gap_frames),
        slow_share=hardness * config.slow_share,
        slip_share=hardness * config.slip_share,
    )
    queue, events = OracleQueue(pieces.text_card), dict[int, list[tuple[int, list[int]]]]()

    def add_event(frame: int, oracle: int, words: list[list[int]]) -> None:
        events.setdefault(frame, []).append((oracle, [token for word in words for token in word]))

    def draw_word_tokens() -> list[list[int]]:
        n_words = draw.randint(1, config.max_words)
        return draw_words(pieces, n_words, hardness * config.again_share, draw)

    frame = draw.randint(0, LAG_FRAMES[0])
    while frame < n_frames:
        for _ in range(draw.randint(0, round(hardness * config.max_guesses))):
            add_event(frame, queue.start(), draw_word_tokens())
            frame += draw.randint(*TICK_FRAMES)
        asked = led_until = frame
        frame += draw.randint(1, 1 + round(hardness * config.max_delay_frames))
        if draw.random() < hardness * config.lead_share:
            led_until = _place_lead(script, draw_word_tokens()[:MOST_TOGETHER], asked, frame, draw)
        comes = draw.random() >= hardness * config.silent_share
        while comes and frame < n_frames:
            words, oracle = draw_word_tokens(), queue.start()
            script.first_frame[frame + 1] = max(frame + 1, led_until) + draw.randint(*LAG_FRAMES)
            n_tokens, came = sum(map(len, words)), frame
            while words:  # complete, or in parts as a slow back-end writes it
                n_part = len(words) if draw.random() >= hardness * config.part_share else draw.randint(1, len(words))
                add_event(came, oracle, words[:n_part])
                words, came = words[n_part:], came + draw.randint(1, 2 * TICK_FRAMES[1])
            ends = max(came, frame + n_tokens) + round(n_tokens * script.max_gap / 2)
            comes = draw.random() < hardness * config.correct_share
            frame = max(frame + LAG_FRAMES[1], draw.randint(frame, ends) if comes else ends)
        frame = max(frame, led_until) + draw.randint(
            LAG_FRAMES[1], LAG_FRAMES[1] + round(hardness * config.max_silence_frames)
        )
    for at in range(n_frames - 1):
        for oracle, tokens in events.get(at, ()):
            queue.extend(oracle, tokens)
        script.oracle[at + 1] = queue.pop()
    return script


def _place_lead(script: CopyScript, words: list[list[int]], start: int, until: int, draw: random.Random) -> int:
    """Places words that no oracle contains, spread over the frames to about `until`; returns the frame after them."""
    frame, widest = start, max(1, 2 * (until - start) // len(words))
    for word in words:
        gap = draw.randint(1, widest)
        padding = [PADDING_ID] * (gap - 1) + [END_OF_PADDING_ID]
        script.untold.update(enumerate([*padding, *word], frame))
        frame += gap + len(word)
    return frame


def draw_trial(pieces: WordPieces, config: CopyConfig, draw: random.Random) -> CopyTrial:
    """Draws a late oracle of 5 to 12 words, some of them repeated, with the longest silence after it."""
    words = draw_words(pieces, draw.randint(*TRIAL_WORDS), config.again_share, draw)
    tokens = [token for word in words for token in word]
    frame = draw.randint(1, 1 + config.max_delay_frames)
    n_positions = frame + LAG_FRAMES[1] + len(tokens) * config.max_gap_frames + config.max_silence_frames
    return CopyTrial(make_oracle_stream([(frame, tokens)], n_positions, pieces.text_card), tokens)


def make_example(
    script: CopyScript,
    pieces: WordPieces,
    draw: random.Random,
    guesses: Sequence[int] | NDArray[np.integer] = (),
    guess_share: float = 0.0,
) -> Example:
    """Makes a training example from a script: the text that is said, and as label the text that should be said.

    `answer_mask` marks tokens at a predictable time, after an end of padding or in lessons without gaps; accuracy is
    measured on them.

    Args:
        script: the oracle stream and the leads.
        pieces: pieces of the vocabulary.
        draw: generator of gaps and slips; the same script and generator give the same example.
        guesses: [S] what the model would say at each position.
        guess_share: share of the frames at which the model's guess is said.
    """
    n_frames = len(script.oracle)
    begins = frozenset(pieces.first)
    text, labels = np.full(n_frames, PADDING_ID, np.int32), np.full(n_frames, PADDING_ID, np.int32)
    known = np.zeros(n_frames, np.bool_)
    cue, broken = Cue(pieces.text_card), deque[int]()  # `broken`: the rest of a word of the replaced oracle
    first = ready = n_frames
    last, slip = PADDING_ID, deque[int]()
    for at, fed in enumerate(script.oracle.tolist()):
        if fed == pieces.text_card:
            first = script.first_frame.get(at, n_frames)
        unsaid = cue.oracle_tokens[cue.n_said :] if fed != PADDING_ID else []  # padding does not replace an oracle
        if cue.feed(fed):
            broken, ready = deque(takewhile(lambda piece: piece not in begins, unsaid)), first
        token = broken[0] if broken else cue.token if ready < n_frames else PADDING_ID
        label = _choose_label(token, last, 0 if broken else ready - at)
        # The same numbers are drawn at each frame whatever is said, so that guesses see the gaps they were made with.
        gap, is_slow = draw.randint(0, script.max_gap), draw.random() < script.slow_share
        slips, guesses_on = draw.random() < script.slip_share, draw.random() < guess_share
        said = label
        if at in script.untold:
            label, said = ZERO_ID, script.untold[at]
        elif slip or slips:
            slip = slip or _make_slip(cue, last, pieces, draw)
            said = slip.popleft()
        elif guesses_on:
            said = int(guesses[at])
        text[at], labels[at] = said, label
        known[at] = label > PADDING_ID and (last == END_OF_PADDING_ID or not script.max_gap)
        last = said
        if broken and said == token:
            broken.popleft()
        elif ready < n_frames and cue.say(said):
            if cue.token not in begins and cue.token != PADDING_ID:
                gap = min(1 + gap, MOST_SLOW_FRAMES) if is_slow else 0
            ready = at + 1 + gap
    silence = np.full((pieces.layout.n_codebooks, n_frames - 1), ZERO_ID, np.int32)
    columns = make_columns(text[:-1], silence, silence, pieces.text_card, pieces.layout)
    columns[1:] = ZERO_ID
    audio_labels = np.full((pieces.layout.n_codebooks, n_frames), ZERO_ID, np.int32)
    return Example(columns, script.oracle, labels, audio_labels, known, script.oracle != PADDING_ID)


def _choose_label(token: int, last: int, n_early: int) -> int:
    """Returns the right token for a frame: the next token if it is due, else padding or the end of padding.

    The end of padding is in the frame before a token that follows padding.

    Args:
        token: the next token; padding if there is none.
        last: what was said in the previous frame.
        n_early: number of frames until the token's frame.
    """
    if token == PADDING_ID or last == END_OF_PADDING_ID or (last > PADDING_ID and n_early <= 0):
        return token
    return END_OF_PADDING_ID if n_early <= 1 else PADDING_ID


def _make_slip(cue: Cue, last: int, pieces: WordPieces, draw: random.Random) -> deque[int]:
    """Draws a mistake of the speaker, as the tokens that are said in the next frames.

    It is another piece, the last one again, words that were said before, an omitted token, or silence for some frames.
    """
    n = draw.randint(1, MOST_TOGETHER)
    again = draw.randrange(cue.n_said) if cue.n_said else 0
    slips = [
        [draw.choice(pieces.first)],
        [last],
        cue.oracle_tokens[cue.n_said + 1 : cue.n_said + 2],
        [*([END_OF_PADDING_ID] if last == PADDING_ID else []), *cue.oracle_tokens[again : again + n]],
        [PADDING_ID] * n,
    ]
    return deque(draw.choice(slips) or [PADDING_ID])
