"""Makes an exchange of an item: the question and answers as two people say them."""

import random
import re
from dataclasses import dataclass, replace

from data_schemas.config import ScriptConfig
from data_schemas.records import Item
from pipelines.script import answers, picture_pointers, questions
from pipelines.script.answers import SpokenAnswer
from pipelines.script.broken import find_broken_span
from pipelines.script.exam_forms import Quiz, make_quiz
from pipelines.script.question_kinds import is_verdict
from pipelines.script.questions import WordedQuestion
from pipelines.script.rejections import NotAskable, check_heard, check_wording
from spoken.reader import Unspeakable, read_aloud
from spoken.rules.rule import use_topic
from spoken.spoken_text import SpokenText


@dataclass(frozen=True, slots=True)
class Exchange:
    """The spoken form of an item, with the index of the first word of the answer itself in each answer.

    `answer` is the true answer, in the words of its solution if there is one that can be spoken; `short_answer` is one
    sentence with the answer alone; `step` is the calculation that yields it. `distractor` is a wrong answer of a few
    words that fit into "Isn't it …?".
    """

    question: SpokenText
    answer: SpokenText
    answer_word_index: int
    short_answer: SpokenText
    short_answer_word_index: int
    step: SpokenText | None
    distractor: SpokenText | None


def make_exchange(item: Item, config: ScriptConfig, seed: int) -> Exchange:
    """Makes the spoken question and answers of an item; the same seed gives the same words.

    Raises:
        NotAskable: it cannot be asked and answered aloud (`rejections.REASONS`).
        Unspeakable: its text has no unambiguous reading (`spoken_text.REASONS`).
    """
    with use_topic(item.question):
        return _make_exchange(item, config, random.Random(seed))


def _make_exchange(item: Item, config: ScriptConfig, rng: random.Random) -> Exchange:
    """Makes the exchange for `make_exchange`, with random choices from `rng`; raises the same errors."""
    wording = picture_pointers.make_pictureless_question(item)
    check_wording(wording, item.answer, item.options)
    quiz = make_quiz(item, wording)
    asked = questions.word_question(quiz, config, rng)
    question = _check_length(read_aloud(asked.text), questions.count_most_words(config), "question_too_long")
    if answers.is_no_verdict(quiz.answer) and is_verdict(asked.text):
        raise NotAskable("answer_of_other_kind", quiz.answer[:80])
    full, short, step = _make_answers(item, quiz, asked, config, rng)
    for said in (question, full.said, short.said):
        if broken := find_broken_span(said.written, said.text):
            raise Unspeakable("broken_text", broken)
    check_heard(question.text, full.said.text)
    check_heard("", short.said.text)
    return Exchange(
        question=capitalise_sentences(question),
        answer=capitalise_sentences(_check_length(full.said, config.max_answer_words, "answer_too_long")),
        answer_word_index=full.word_index,
        short_answer=capitalise_sentences(short.said),
        short_answer_word_index=short.word_index,
        step=None if step is None else capitalise_sentences(step),
        distractor=_choose_distractor(quiz, rng),
    )


def _make_answers(
    item: Item, quiz: Quiz, asked: WordedQuestion, config: ScriptConfig, rng: random.Random
) -> tuple[SpokenAnswer, SpokenAnswer, SpokenText | None]:
    """Returns the full answer, the answer alone, and the calculation that yields it (None if there is none)."""
    if item.explanation and not item.options:
        said = answers.answer_by_reasoning(item, config.max_answer_words, rng)
        return said.full, said.short, said.calculation
    shown = answers.to_asked_form(quiz.answer, item.question)
    stem = "" if quiz.closing else asked.stem  # "none of these" completes no sentence
    return answers.answer_by_option(shown, stem, rng), answers.answer_alone(shown, bool(asked.stem), rng), None


def _choose_distractor(quiz: Quiz, rng: random.Random) -> SpokenText | None:
    """Draws a wrong answer that fits into "Isn't it …?" and can be spoken; None if there is none."""
    for option in rng.sample(quiz.wrong, len(quiz.wrong)):
        if (piece := answers.to_noun_phrase(option)) is not None:
            try:
                return read_aloud(piece)
            except Unspeakable:
                continue
    return None


def capitalise_sentences(spoken: SpokenText) -> SpokenText:
    """Returns a spoken text with a capital at the start of each sentence, and a full stop if it has no final mark."""
    text = re.sub(r"(^|(?<!\b[A-Z])[.?!] )([a-z])", lambda m: m[1] + m[2].upper(), spoken.text)
    text = text if text.endswith((".", "?", "!")) else f"{text}."
    return replace(spoken, text=text)


def _check_length(spoken: SpokenText, limit: int, reason: str) -> SpokenText:
    """Returns the text; raises `NotAskable` with this reason if it has more than `limit` words."""
    if spoken.n_words > limit:
        raise NotAskable(reason, f"{spoken.n_words} words, at most {limit} are said")
    return spoken
