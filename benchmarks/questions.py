"""Generates any number of questions, for measurements that need more than the sample items."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

from data_schemas.config import SourceConfig
from spoken.rules.numerals import spell_cardinal

WHO = ("A farmer", "My neighbour", "The teacher", "Natalia", "Her uncle", "The old captain")
DID = ("sold", "counted", "painted", "carried", "found", "packed")
WHAT = ("green apples", "wooden chairs", "small boats", "copper coins", "school books", "eggs")
WHERE = ("in the market", "near the river", "before the winter", "on a Monday", "behind the house")


def generate_texts(n_texts: int, seed: int) -> Iterator[str]:
    """Yields `n_texts` generated texts of one to three sentences; the same for the same seed."""
    draw = random.Random(seed)
    for _ in range(n_texts):
        yield " ".join(_make_sentence(draw) for _ in range(draw.randint(1, 3)))


def write_questions(file: Path, n_questions: int, seed: int) -> SourceConfig:
    """Writes generated questions with numbers as answers to a JSON lines file, and returns the source that reads it."""
    rows = (
        {"question": f"{text} How many is that?", "answer": str(number)}
        for number, text in enumerate(generate_texts(n_questions, seed), start=2)
    )
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return SourceConfig(name="own", path=str(file), columns={"question": "question", "answer": "answer"})


def _make_sentence(draw: random.Random) -> str:
    """Returns a random sentence with a number in words: "A farmer sold ninety eggs near the river."."""
    number = spell_cardinal(draw.randint(2, 900))
    return f"{draw.choice(WHO)} {draw.choice(DID)} {number} {draw.choice(WHAT)} {draw.choice(WHERE)}."
