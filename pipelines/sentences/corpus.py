"""Draws sentences for the assistant's voice: from sources, random words and numbers, leads and stalls.

The sentence at a position is a pure function of corpus, configuration and position, so any part can be made anywhere at
any time. Text is not read aloud here; the speaker does that, and rejects what has no unambiguous reading.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, get_args

import numpy as np
from numpy.typing import NDArray

from data_schemas import ids
from data_schemas.config.speech_rows import SentenceKind, SpeechRowsConfig
from data_schemas.errors import ConfigError, DatasetError
from data_schemas.licences import join_licences, name_questions
from data_schemas.records import Item
from pipelines.meaning import list_common_words
from pipelines.script.leads import draw_general_lead, draw_stall
from pipelines.sources.items import read_items
from pipelines.vocabulary import is_word
from spoken.sentences import split_sentences

_KINDS: Final[tuple[SentenceKind, ...]] = get_args(SentenceKind)
_WORD: Final = re.compile(r"(?<![\w'’-])[A-Za-z][a-z]+(?![\w'’-])")
_N_RANDOM_WORDS: Final = (3, 12)
_N_NUMBERS: Final = (1, 3)
_MOST_DIGITS: Final = 12
"""For all numbers of a sentence together, since more would exceed the length of a sentence."""
_COMMA_SHARE, _COUNTED_SHARE = 0.15, 0.5


@dataclass(frozen=True, slots=True)
class SourceSentence:
    """A sentence of an item as its source has it; `about` is the item's question, by which units are read."""

    item_id: str
    source: str
    about: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """The text to speak at a position; `item_id` is None if it does not come from an item."""

    sentence_id: str
    kind: SentenceKind
    split: str
    source: str
    item_id: str | None
    about: str
    written: str


@dataclass(frozen=True, slots=True)
class Corpus:
    """The sources' sentences, each once, their words in lower case, and `digest`, which identifies both.

    `licences` has those of the sources' questions, named as in `data_schemas.licences`.
    """

    lines: Sequence[SourceSentence]
    words: Sequence[str]
    digest: str
    licences: Mapping[str, str | None] = field(default_factory=dict)


def read_corpus(config: SpeechRowsConfig, left_out: frozenset[str] = frozenset()) -> Corpus:
    """Reads the sentences of `min_words` to `max_words` written words of the sources' train items, and their words.

    Args:
        left_out: ids of items, or of groups of items, to exclude.

    Raises:
        ConfigError, SourceError: a source does not exist, cannot be read, or is requested in another language.
        DatasetError: no sentence is left.
    """
    lines: dict[str, SourceSentence] = {}
    licences: dict[str, set[str | None]] = {}
    for source in config.sources:
        if source.languages != ["en"]:
            raise ConfigError(f"{source.name} is requested in {source.languages}.", "Only English is supported so far.")
        for item in read_items(source, config.limit, config.split).items:
            if item.split == "train" and not {item.item_id, item.group_id} & left_out:
                licences.setdefault(name_questions(item.source), set()).add(item.licence)
                for text in _split_item(item):
                    if config.min_words <= len(text.split()) <= config.max_words:
                        lines.setdefault(text, SourceSentence(item.item_id, item.source, item.question, text))
    if not lines:
        raise DatasetError("No sentence of the sources is left to speak.", "Give more items, or exclude fewer.")
    words = {word.lower() for text in lines for word in _WORD.findall(text)}
    known = sorted(filter(is_word, words))
    joined = {name: join_licences(each) for name, each in licences.items()}
    return Corpus(list(lines.values()), known, ids.digest("sentences", list(lines), known), joined)


def draw_sentence(corpus: Corpus, config: SpeechRowsConfig, position: int) -> Sentence:
    """Returns the sentence at a position, drawn by seed.

    Of every `len(corpus.lines)` positions, from 0 on, no two have the same sentence of a source.
    """
    rng = random.Random(ids.derive_seed(config.seed, "sentence", position))
    kind: SentenceKind = rng.choices(_KINDS, [getattr(config.shares, kind) for kind in _KINDS])[0]
    line = _draw_line(corpus, config.seed, position) if kind == "sentence" else None
    return Sentence(
        sentence_id=f"speech-{config.seed}-{position:07d}",
        kind=kind,
        split="validation" if rng.random() < config.validation_share else "train",
        source=line.source if line else kind,
        item_id=line.item_id if line else None,
        about=line.about if line else "",
        written=line.text if line else _make_up_text(kind, corpus, rng),
    )


def _split_item(item: Item) -> list[str]:
    """Returns the sentences of an item's question, explanation and answer."""
    return [text for part in (item.question, item.explanation, item.answer) if part for text in split_sentences(part)]


def _draw_line(corpus: Corpus, seed: int, position: int) -> SourceSentence:
    """Returns the sentence of a source for a position: each once in `len(corpus.lines)` positions, in random order."""
    epoch, at = divmod(position, len(corpus.lines))
    return corpus.lines[int(_draw_order(len(corpus.lines), seed, epoch)[at])]


@lru_cache(maxsize=2)
def _draw_order(n_lines: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """Returns the indices of all sentences in the random order of an epoch."""
    return np.random.default_rng(ids.derive_seed(seed, "lines", epoch)).permutation(n_lines)


def _make_up_text(kind: SentenceKind, corpus: Corpus, rng: random.Random) -> str:
    """Returns the text of a sentence that is not from a source: a lead, a stall, numbers, or random words."""
    if kind == "lead":
        return draw_general_lead(rng)
    if kind == "stall":
        return draw_stall(rng)
    return _draw_numbers(corpus, rng) if kind == "numbers" else _draw_words(corpus, rng)


def _draw_words(corpus: Corpus, rng: random.Random) -> str:
    """Draws random words as one sentence, with some commas."""
    words = [_draw_word(corpus, rng) for _ in range(rng.randint(*_N_RANDOM_WORDS))]
    marked = [word + "," * (rng.random() < _COMMA_SHARE) for word in words[:-1]]
    return " ".join([*marked, words[-1]]).capitalize() + "."


def _draw_word(corpus: Corpus, rng: random.Random) -> str:
    """Draws a word of the sources or a common English word, with equal probability."""
    return rng.choice(corpus.words if rng.random() < 0.5 else list_common_words())


def _draw_numbers(corpus: Corpus, rng: random.Random) -> str:
    """Draws one to three numbers in digits, some followed by a word, as one sentence."""
    pieces, n_digits = list[str](), 0
    for _ in range(rng.randint(*_N_NUMBERS)):
        size = rng.randint(1, 9)
        if n_digits + size > _MOST_DIGITS:
            break
        n_digits += size
        counted = f" {_draw_word(corpus, rng)}" if rng.random() < _COUNTED_SHARE else ""
        pieces.append(_draw_number(size, rng) + counted)
    return ", ".join(pieces) + "."


def _draw_number(n_digits: int, rng: random.Random) -> str:
    """Draws a number in a written form: with `n_digits` digits, or, in some forms, small (a percentage, a fraction)."""
    whole = rng.randrange(10 ** (n_digits - 1) if n_digits > 1 else 0, 10**n_digits)
    small = rng.randint(2, 99)
    forms = (
        *[f"{whole:,}"] * 5,
        f"{whole:,}.{rng.randint(1, 9)}",
        f"{whole % 1000}.{rng.randint(1, 99):02d}",
        f"-{whole:,}",
        f"${whole:,}",
        f"${whole % 1000}.{rng.randint(1, 99):02d}",
        f"{small}%",
        f"{rng.randint(1, 9)}/{rng.choice((2, 3, 4, 5, 6, 8, 10))}",
    )
    return rng.choice(forms)
