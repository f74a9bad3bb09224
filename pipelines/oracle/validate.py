"""Validates a model's answer as an oracle. An unusable answer is requested again and never replaced by other text."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from data_schemas.config import OracleConfig
from pipelines.oracle.english import is_english
from spoken.chat_answers import speak_answer
from spoken.first_paragraph import OTHER_LABEL, OWN_LABEL, ROLE, says_nothing, strip_paragraph
from spoken.oracle_text import ENDS_SENTENCE, count_usable_words
from spoken.refusals import find_refusal
from spoken.spoken_text import Unspeakable, split_lower_words, split_words

COPIED_WORDS = 4
"""A sentence of the hint with at least so many words counts as copied if the answer contains it whole; a shorter one is
unavoidable."""
COPIED_SHARE = 0.6
"""A longer continuous share of the hint counts as copied too, however its sentences are divided."""
QUOTED_WORDS = 5
"""So many consecutive words of the instruction are a quotation, unless the speakers said them too."""
QUOTED_SENTENCE_WORDS = 3
"""A whole sentence of the instruction with at least so many words is one too."""
MAX_HINT_LEVEL_COPIED = 3
"""Level 4 may repeat the hint; level 0 has none."""

_ENDS = re.compile(r"[.?!…][\"')\]]*$")
_SENTENCE = re.compile(r"[^.?!]+[.?!]*")
_QUOTES = re.compile(
    r"\b(?:hidden|secret) (?:answers?|hints?|keywords?|notes?|words?)\b"
    r"|\bthe (?:secret|hints?|keywords?|notes) (?:is|are|says?|suggests?|mentions?|tells?|gives?)\b"
    r"|\b(?:based on|according to|using) (?:the )?(?:given |provided )?(?:hint|keyword|note)s?\b"
    r"|\bthe assistant (?:would|will|might) (?:say|answer|reply)\b"
    r"|\bgive you a hint\b|\btrue answer\b|\bspoken sentences\b|\b(?:user|assistant) unfinished\b"
)


@dataclass(frozen=True, slots=True)
class AnswerContext:
    """What an answer is compared with.

    `instruction` is what the prompt contained besides the conversation and the hint; `conversation` is what was said so
    far, whose words may be repeated.
    """

    level: int
    hint: str
    instruction: str
    conversation: str

    @property
    def known(self) -> str:
        """What may be repeated: the conversation and, except at level 0, the hint."""
        return f"{self.conversation} {self.hint if self.level else ''}"


class Unusable(Exception):
    """An unusable answer; `reason` is a name with underscores, `detail` shows the fault."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


def check_answer(raw_text: str, is_cut: bool, asked: AnswerContext, config: OracleConfig) -> str:
    """Returns the oracle text of a model's answer: the first sentences of its first paragraph that fit `max_words`.

    A paragraph that ends in a colon ("Sure, here is my guess:") only announces the next one and is skipped; emoji,
    emphasis marks and sentences that cannot be spoken are removed.

    Args:
        is_cut: whether the answer ended at the token limit; its incomplete last sentence is then removed.

    Raises:
        Unusable: the answer is empty, cut off in its first sentence, too long or short, a refusal, in another language,
            speaks for others, repeats itself, quotes the instruction, copies the hint (levels 1 to 3), or has no
            sentence that can be spoken.
    """
    first, is_last = _find_first_paragraph(raw_text)
    if label := ROLE.search(first) or OWN_LABEL.search(first):
        raise Unusable("role_label", label[0].strip())
    if label := OTHER_LABEL.search(first):
        raise Unusable("quotes_instructions", label[0].strip())
    sentences = speak_answer(first)
    said = " ".join(each for each in sentences if isinstance(each, str))
    if not said:
        refusal = next(each for each in sentences if isinstance(each, Unspeakable))
        raise Unusable(f"not_speakable_{refusal.reason}", refusal.detail[:100]) from refusal
    is_open = is_cut and is_last and not _ENDS.search(first) and isinstance(sentences[-1], str)
    text = _keep_whole_sentences(said, is_open, config.max_words)
    _check_text(text, asked, config)
    if 1 <= asked.level <= MAX_HINT_LEVEL_COPIED and (copied := _find_copy(split_lower_words(said), asked.hint)):
        raise Unusable("copies_hint", copied[:100])
    return text


def _find_first_paragraph(raw_text: str) -> tuple[str, bool]:
    """Returns the first paragraph with content, and whether it is the last one; raises `Unusable` if there is none."""
    paragraphs = [each for line in raw_text.split("\n") if (each := strip_paragraph(line))]
    announcing = sum(1 for _ in takewhile(says_nothing, paragraphs))
    if announcing == len(paragraphs):
        raise Unusable("empty", f"nothing but {paragraphs[0][:80]!r}" if paragraphs else "nothing was written")
    return paragraphs[announcing], announcing + 1 == len(paragraphs)


def is_as_long_as_wanted(text: str, asked: AnswerContext, config: OracleConfig) -> bool:
    """Returns whether a usable answer has at least `wanted_words`, so that it is not requested again."""
    return len(split_words(text)) >= _find_least_words(min(config.wanted_words[asked.level], config.max_words), asked)


def _find_least_words(n_words: int, asked: AnswerContext) -> int:
    """Returns `n_words`, or the number of words of the hint if that is smaller and the answer may repeat the hint."""
    return min(n_words, len(split_words(asked.hint))) if asked.level > MAX_HINT_LEVEL_COPIED else n_words


def _check_text(text: str, asked: AnswerContext, config: OracleConfig) -> None:
    """Raises `Unusable` if a text is a refusal, too short, not English, repetitive, or quotes the instruction."""
    words, known = split_lower_words(text), split_lower_words(asked.known)
    lowered = " ".join(words)
    if (refused := find_refusal(text)) and refused not in " ".join(known):
        raise Unusable("refusal", refused)
    fewest = _find_least_words(config.min_words, asked)
    if len(words) < fewest:
        raise Unusable("too_short", f"{lowered!r} has fewer than {fewest} words")
    if not is_english(words, frozenset(known)):
        raise Unusable("other_language", lowered[:100])
    if repeated := _find_repetition(words):
        raise Unusable("repeats_itself", repeated)
    if quoted := _find_quotation(words, asked.instruction, asked.known):
        raise Unusable("quotes_instructions", quoted)


def _keep_whole_sentences(said: str, is_open: bool, max_words: int) -> str:
    """Returns the first sentences, as many as fit `max_words`; `is_open` means that the last one is incomplete.

    Raises:
        Unusable: the first sentence is incomplete or does not fit.
    """
    words = (said.rstrip(".?!") if is_open else said).split()
    if is_open and not any(word.endswith(ENDS_SENTENCE) for word in words):
        raise Unusable("cut_off", "its first sentence has no end")
    n_kept = count_usable_words(words, max_words, is_ended=not is_open)
    if not n_kept:
        raise Unusable("too_long", f"its first sentence has more than {max_words} words")
    return " ".join(words[:n_kept]).rstrip(",;:")


def _find_repetition(words: Sequence[str]) -> str:
    """Returns three consecutive words that occur three times, or a word that occurs four times in a row; else empty."""
    triples = Counter(zip(words, words[1:], words[2:], strict=False))
    triple, n_times = triples.most_common(1)[0] if triples else ((), 0)
    if n_times >= 3:
        return " ".join(triple)
    runs = zip(words, words[1:], words[2:], words[3:], strict=False)
    return next((run[0] for run in runs if len(set(run)) == 1), "")


def _find_quotation(words: Sequence[str], instruction: str, others: str) -> str:
    """Returns words that quote the instruction and are not in `others`, what the speakers said; empty if none do."""
    said_too = " ".join(split_words(others.lower()))
    if (found := _QUOTES.search(" ".join(words))) and found[0] not in said_too:
        return found[0]
    text = f" {' '.join(words)} "
    for sentence in re.split(r"[.?!]", instruction.lower()):
        own = split_words(sentence)
        if len(own) >= QUOTED_SENTENCE_WORDS and f" {' '.join(own)} " in text and " ".join(own) not in said_too:
            return " ".join(own)
    instruction_text = f" {' '.join(split_words(instruction.lower()))} "
    for start in range(len(words) - QUOTED_WORDS + 1):
        run = " ".join(words[start : start + QUOTED_WORDS])
        if f" {run} " in instruction_text and run not in said_too:
            return run
    return ""


def _find_copy(words: Sequence[str], hint: str) -> str:
    """Returns the words that an answer copies from the hint; empty if it copies nothing.

    A copy is the hint itself, or has at least `COPIED_WORDS` words in sequence that are a sentence of it or more than
    `COPIED_SHARE` of it.
    """
    own = split_lower_words(hint)
    if list(words) == own:
        return " ".join(own)
    text = f" {' '.join(words)} "
    sentences = (split_lower_words(each) for each in _SENTENCE.findall(hint))
    for part in (*sentences, *_list_runs(own)):
        if len(part) >= COPIED_WORDS and f" {' '.join(part)} " in text:
            return " ".join(part)
    return ""


def _list_runs(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """Returns all sequences of adjacent words that are just longer than `COPIED_SHARE` of the words."""
    n_run = int(COPIED_SHARE * len(words)) + 1
    return (words[start : start + n_run] for start in range(len(words) - n_run + 1))
