"""MT-Bench's questions from FastChat's files, made speakable.

Source: `fastchat/llm_judge/data/mt_bench` (lm-sys/FastChat, Apache-2.0). `question.jsonl`, a row a question:

    {"question_id": 107, "category": "reasoning", "turns": ["A is the father of B. B is the father of C. What is …",
     "Building on the previous question, …"]}

`reference_answer/gpt-4.jsonl`, GPT-4's answers to those with a right one: `{"question_id": 107, "choices": [{"turns":
["A is the grandfather of C.", "A is three generations above Z."]}]}`.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from data_schemas import ids
from data_schemas.errors import ConfigError, SourceError
from spoken.plain_text import strip_markdown
from spoken.reader import Unspeakable, read_aloud

QUESTIONS: Final = "question.jsonl"
REFERENCES: Final = "reference_answer/gpt-4.jsonl"
WITH_REFERENCE: Final = frozenset({"math", "reasoning", "coding"})
"""Categories that are rated with a reference answer (FastChat's `NEED_REF_CATS`)."""
N_TURNS: Final = 2
_RULED_LINE: Final = re.compile(r"(?m)^[^\S\n]*([=*_~-])\1{2,}[^\S\n]*$")
"""A horizontal rule, which is not spoken."""


@dataclass(frozen=True, slots=True)
class MtBenchQuestion:
    """A question of two turns.

    Attributes:
        turns: written form, for the judge.
        spoken: spoken form.
        references: reference answers; empty if its category has none.
    """

    question_id: str
    category: str
    turns: tuple[str, ...]
    spoken: tuple[str, ...]
    references: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MtBenchQuestions:
    """The questions of the chosen categories that can be spoken, in file order.

    Attributes:
        unspeakable: reasons why other questions cannot be spoken, by question id.
        digest: digest of the questions of all categories and of the file of references, whatever categories are chosen.
    """

    questions: tuple[MtBenchQuestion, ...]
    unspeakable: dict[str, str]
    digest: str


def read_questions(path: str, categories: Sequence[str], n_most: int = 0) -> MtBenchQuestions:
    """Reads the questions of a folder; those that cannot be spoken are left out, and returned with the reason.

    Args:
        n_most: maximum number of speakable questions, taken from the categories in turn, in file order; 0: all.

    Raises:
        SourceError: a file is missing or malformed, or a question that needs a reference has none.
        ConfigError: no question has one of the categories, or no question is left.
    """
    rows = list(_read_rows(Path(path) / QUESTIONS))
    there = dict.fromkeys(str(row["category"]) for row in rows)
    if missing := [each for each in categories if each not in there]:
        raise ConfigError(f"There is no category {', '.join(missing)}.", f"{path} has: {', '.join(there)}.")
    references = _read_references(Path(path), [row for row in rows if row["category"] in categories])
    unspeakable: dict[str, str] = {}
    by_category: dict[str, list[MtBenchQuestion]] = {each: [] for each in categories}
    for row in rows:
        question_id, category = str(row["question_id"]), str(row["category"])
        if category not in by_category:
            continue
        turns = tuple(map(str, row["turns"]))
        try:
            spoken = tuple(_speak(turn) for turn in turns)
        except Unspeakable as refusal:
            unspeakable[question_id] = str(refusal)
            continue
        by_category[category].append(
            MtBenchQuestion(question_id, category, turns, spoken, references.get(question_id, ()))
        )
    in_turn = [each for row in zip_longest(*by_category.values()) for each in row if each is not None]
    chosen = in_turn[: n_most or None]
    if not chosen:
        raise ConfigError(f"No question of {', '.join(categories)} can be spoken.", "Choose other categories.")
    chosen.sort(key=lambda each: [str(row["question_id"]) for row in rows].index(each.question_id))
    answers = Path(path) / REFERENCES
    digest = ids.digest(rows, ids.compute_sha256(answers) if answers.is_file() else "")
    return MtBenchQuestions(tuple(chosen), unspeakable, digest)


def _read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yields id, category and turns of each question; raises a SourceError if the file is missing or malformed."""
    try:
        for line in path.read_text(encoding="utf-8").split("\n"):
            if line.strip():
                row = json.loads(line)
                if len(row["turns"]) != N_TURNS:
                    raise ValueError(f"question {row['question_id']} has {len(row['turns'])} turns")
                yield {name: row[name] for name in ("question_id", "category", "turns")}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise SourceError(
            f"MT-Bench's questions in {path} cannot be read: {error!r}.",
            "Use FastChat's folder fastchat/llm_judge/data/mt_bench, or one of the same format.",
        ) from error


def _read_references(folder: Path, rows: Sequence[dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Reads the reference answers by question id, for all rows that need one; raises SourceError if one is missing."""
    needed = [str(row["question_id"]) for row in rows if row["category"] in WITH_REFERENCE]
    if not needed:
        return {}
    path = folder / REFERENCES
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
        answers = {str(each["question_id"]): tuple(map(str, each["choices"][0]["turns"])) for each in records}
        lacking = [each for each in needed if len(answers.get(each, ())) != N_TURNS]
        if lacking:
            raise ValueError(f"no answers to {', '.join(lacking)}")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise SourceError(
            f"The reference answers in {path} cannot be read: {error}.",
            f"Add FastChat's file, or leave out the categories that need it: {', '.join(sorted(WITH_REFERENCE))}.",
        ) from error
    return {each: answers[each] for each in needed}


def _speak(written: str) -> str:
    """Returns the spoken form of a question, without Markdown and horizontal rules."""
    return read_aloud(strip_markdown(_RULED_LINE.sub("", written))).text
