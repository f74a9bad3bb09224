"""The report and the plot of an evaluation with spoken questions."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from data_schemas.config.questions import QuestionsConfig
from kame_model.evaluate.answers.heard_words import warn_unheard
from kame_model.evaluate.calls.report import (
    draw_figures,
    format_costs_table,
    format_figures_table,
    list_cut_answers,
    list_examples,
    list_faults,
)
from kame_model.evaluate.calls.run import Record, get_condition
from kame_model.evaluate.questions.sets import QuestionSet
from kame_model.evaluate.report.folder import format_table

_N_SHOWN: Final = 5
_JUDGED: Final = {
    "answer_judged": "judged, heard",
    "answer_judged_text": "judged, by its text",
    "reference_judged": "oracle right, judged",
}
_ANSWERS: Final = {"answer_accuracy": "answer right, heard", "answer_accuracy_text": "answer right, by its text"}
_SHARES: Final = {
    **_ANSWERS,
    **_JUDGED,
    "reference_accuracy": "oracle right",
    "response_accuracy": "heard, of right oracles",
    "response_accuracy_text": "by its text, of right oracles",
    "heard_word_errors": "word errors, heard",
}
_TIMES: Final = {
    "ttfat_s": "first sound",
    "was_speaking": "speaking at the question's end",
    "keyword_delay_s": "then to the answer's word",
    "answer_delay_s": "sum",
    "oracle_age_s": "oracle's age",
    "overlap": "overlap",
}
COUNTED: Final = {
    "empty": "empty, heard",
    "empty_text": "empty text",
    "degenerate": "loops, heard",
    "degenerate_text": "loops, text",
    "missed": "missed turns",
    "hearing_refused": "refused by the recogniser",
    "listening_failed": "session's recogniser failed",
}
"""Measures whose count is in the table too, with their titles."""


_TRAINED: Final = """\
**The weights were trained on questions of this set.** Only items that were kept out of training show what the
front-end does with new questions: the published test file, or rows that no training dataset has.
"""


def format_markdown(
    config: QuestionsConfig,
    questions: QuestionSet,
    rows: Sequence[Record],
    records: Sequence[Record],
    more: Mapping[str, Any],
) -> str:
    """Renders the report as Markdown; `more` is as in figures.json."""
    left_out = ", ".join(f"{n} {reason}" for reason, n in more["left_out"].items()) or "none"
    charged = [[each["what"], each["n"], f"{each['median_s']:.2f}", f"{each['p90_s']:.2f}"] for each in more["charged"]]
    parts = [
        f"# Spoken questions: {questions.name}\n",
        f"{rows[0]['n']} of {len(questions.questions)} questions, drawn by seed {config.items_seed}; "
        f"skipped before them: {left_out}; malformed rows: {more['n_bad_rows']}. Answers: {questions.rule}. "
        "Confidence intervals of 95%.\n",
        *([_TRAINED] if more["is_trained_on_set"] else []),
        "## Answers\n",
        *warn_unheard(rows, [get_condition(row).title for row in rows]),
        format_figures_table(rows, _SHARES),
        "![answers and delays](plots/answers.png)\n",
        "## Delays in seconds: mean, median, 90th percentile\n",
        format_figures_table(rows, _TIMES),
        "Charged times, each measured once:\n",
        format_table(["what", "n", "median", "90th percentile"], charged),
        "## Counted as wrong, or not answered\n",
        format_figures_table(rows, {f"n_{name}": title for name, title in COUNTED.items()}),
        *list_cut_answers(rows),
        *list_faults(records, _JUDGED),
        "\n## Examples\n",
        *list_examples(records, _get_title, _list_texts, _N_SHOWN),
        "## Cost\n",
        format_costs_table(more["costs"]),
    ]
    return "\n".join(parts)


def draw_answers(rows: Sequence[Record]) -> bytes:
    """Plots accuracy and delays; returns a PNG.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    return draw_figures(rows, {**_ANSWERS, "ttfat_s": "first sound, s", "answer_delay_s": "answer's word, s"})


def _get_title(record: Record) -> str:
    """Returns the heading of an example: the question and its accepted answers."""
    return f"{record['question']} Accepted: {' / '.join(record['answers'])}."


def _list_texts(record: Record) -> dict[str, object]:
    """Returns the texts of an item by column, and whether its answer is right by what is heard."""
    return {
        "understood": record["understood"],
        "oracle": record["reference"],
        "text": record["text"],
        "heard": record["heard"],
        "right": "yes" if record["measures"]["answer_accuracy"] else "no",
    }
