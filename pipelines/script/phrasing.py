"""An item as what two people say: a question and an answer, in words."""

import random
import re
from dataclasses import dataclass

from data_schemas.config import ScriptConfig
from data_schemas.records import Item
from pipelines.script import answers, questions
from pipelines.script.refusals import NotAskable, check_question, refers_to_options
from pipelines.script.speakable import Unspeakable, speak, spoken_words
from pipelines.script.spoken import word_set


@dataclass(frozen=True, slots=True)
class Exchange:
    """What is said, and where in the answer turn the true answer starts (None: not found word for word)."""

    question: str
    answer: str
    answer_word_index: int | None


def phrase(item: Item, config: ScriptConfig, seed: int) -> Exchange:
    """The spoken question and answer of an item; the same seed gives the same words.

    Raises:
        NotAskable: it cannot be asked and answered aloud (`refusals.REASONS`).
        Unspeakable: its text has no sure reading (`spoken.REASONS`).
    """
    rng = random.Random(seed)
    check_question(item)
    if item.options and refers_to_options(item.answer):
        raise NotAskable("answer_refers_to_options", item.answer[:80])
    asked, completes = _ask(item, config, rng)
    question = _within(speak(asked), config.max_question_words, "question_too_long")
    if item.explanation and not item.options:
        limit = config.max_answer_words
        answer, target = answers.explained(item.answer, item.explanation, item.question, speak, limit, rng)
    else:
        shown = answers.as_said(item.answer, item.question)
        target = speak(shown)
        answer = speak(answers.of_option(shown, completes, rng))
    _within(answer, config.max_answer_words, "answer_too_long")
    question, answer = _sentence_case(question), _sentence_case(answer)
    return Exchange(question, answer, _find(spoken_words(target), spoken_words(answer)))


def _ask(item: Item, config: ScriptConfig, rng: random.Random) -> tuple[str, bool]:
    if not item.options:
        return item.question, False
    if {option.strip().lower().rstrip(".") for option in item.options} == {"true", "false"}:
        return questions.ask_true_or_false(item.question), False
    if _can_be_read_out(item, config):
        return questions.ask_with_options(item.question, item.options)
    return questions.ask_open(item.question, rng)


def _can_be_read_out(item: Item, config: ScriptConfig) -> bool:
    """Whether the options are few, short and sayable, and none speaks of the others or needs a comma of its own."""
    if not 2 <= len(item.options) <= config.max_spoken_options:
        return False
    for option in item.options:
        if refers_to_options(option) or re.search(r"[,;]\s", option):
            return False
        try:
            if len(spoken_words(speak(option))) > config.max_option_words:
                return False
        except Unspeakable:
            return False
    return True


def _sentence_case(spoken: str) -> str:
    """Sentences that began with a figure begin with a capital again."""
    return re.sub(r"(^|(?<!\b[A-Z])[.?!] )([a-z])", lambda m: m[1] + m[2].upper(), spoken)


def _within(spoken: str, limit: int, reason: str) -> str:
    n_words = len(spoken_words(spoken))
    if n_words > limit:
        raise NotAskable(reason, f"{n_words} words, at most {limit} are said")
    return spoken


_NUMBER_WORDS = word_set(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion point "
    "minus"
)  # fmt: skip


def _find(target: list[str], words: list[str]) -> int | None:
    """Where the target starts among the words; "four" is not found in "twenty four"."""
    wanted, said = [word.lower() for word in target], [word.lower() for word in words]
    for start in range(len(said) - len(wanted) + 1):
        end = start + len(wanted)
        if said[start:end] != wanted:
            continue
        before = wanted[0] in _NUMBER_WORDS and start > 0 and said[start - 1] in _NUMBER_WORDS
        after = wanted[-1] in _NUMBER_WORDS and end < len(said) and said[end] in _NUMBER_WORDS
        if not before and not after:
            return start
    return None
