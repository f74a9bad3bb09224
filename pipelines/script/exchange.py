"""An item as what two people say: a question and an answer, in words."""

import random
import re
from dataclasses import dataclass, replace

from data_schemas.config import ScriptConfig
from data_schemas.records import Item
from pipelines.script import answers, picture_pointers, questions
from pipelines.script.answers import Answer
from pipelines.script.broken import broken_span
from pipelines.script.exam_forms import Quiz, take
from pipelines.script.question_kinds import is_verdict
from pipelines.script.questions import Asked
from pipelines.script.rejections import NotAskable, check_heard, check_wording
from spoken.reader import Unspeakable, read_aloud
from spoken.rules.rule import reading_about
from spoken.spoken_text import Spoken


@dataclass(frozen=True, slots=True)
class Exchange:
    """What is said of an item, and where in each answer its first answer-bearing word stands.

    `answer` is the true answer, in the words of its solution where the item explains itself and they can be said;
    `short_answer` one sentence with the answer alone; `step` the calculation that comes to it. `distractor` is a wrong
    answer as a few words that fit into "Isn't it …?".
    """

    question: Spoken
    answer: Spoken
    answer_word_index: int
    short_answer: Spoken
    short_answer_word_index: int
    step: Spoken | None
    distractor: Spoken | None


def phrase(item: Item, config: ScriptConfig, seed: int) -> Exchange:
    """The spoken question and answers of an item; the same seed gives the same words.

    Raises:
        NotAskable: it cannot be asked and answered aloud (`rejections.REASONS`).
        Unspeakable: its text has no sure reading (`spoken_text.REASONS`).
    """
    with reading_about(item.question):
        return _phrase(item, config, random.Random(seed))


def _phrase(item: Item, config: ScriptConfig, rng: random.Random) -> Exchange:
    told = picture_pointers.with_picture_told(item)
    check_wording(told, item.answer, item.options)
    quiz = take(item, told)
    asked = questions.ask(quiz, config, rng)
    question = _within(read_aloud(asked.text), questions.most_words(config), "question_too_long")
    if answers.is_no_verdict(quiz.answer) and is_verdict(asked.text):
        raise NotAskable("answer_of_other_kind", quiz.answer[:80])
    full, short, step = _answers(item, quiz, asked, config, rng)
    for said in (question, full.said, short.said):
        if broken := broken_span(said.written, said.text):
            raise Unspeakable("broken_text", broken)
    check_heard(question.text, full.said.text)
    check_heard("", short.said.text)
    return Exchange(
        question=sentence_case(question),
        answer=sentence_case(_within(full.said, config.max_answer_words, "answer_too_long")),
        answer_word_index=full.word_index,
        short_answer=sentence_case(short.said),
        short_answer_word_index=short.word_index,
        step=None if step is None else sentence_case(step),
        distractor=_distractor(quiz, rng),
    )


def _answers(
    item: Item, quiz: Quiz, asked: Asked, config: ScriptConfig, rng: random.Random
) -> tuple[Answer, Answer, Spoken | None]:
    if item.explanation and not item.options:
        said = answers.explained(item, config.max_answer_words, rng)
        return said.full, said.short, said.calculation
    shown = answers.as_said(quiz.answer, item.question)
    stem = "" if quiz.closing else asked.stem  # "none of these" ends no sentence
    return answers.of_option(shown, stem, rng), answers.alone(shown, bool(asked.stem), rng), None


def _distractor(quiz: Quiz, rng: random.Random) -> Spoken | None:
    for option in rng.sample(quiz.wrong, len(quiz.wrong)):
        if (piece := answers.as_noun_phrase(option)) is not None:
            try:
                return read_aloud(piece)
            except Unspeakable:
                continue
    return None


def sentence_case(spoken: Spoken) -> Spoken:
    """Sentences that began with a figure begin with a capital again, and the last one has its stop."""
    text = re.sub(r"(^|(?<!\b[A-Z])[.?!] )([a-z])", lambda m: m[1] + m[2].upper(), spoken.text)
    text = text if text.endswith((".", "?", "!")) else f"{text}."
    return replace(spoken, text=text)


def _within(spoken: Spoken, limit: int, reason: str) -> Spoken:
    if spoken.n_words > limit:
        raise NotAskable(reason, f"{spoken.n_words} words, at most {limit} are said")
    return spoken
