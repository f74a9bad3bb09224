"""The figures, the report and the plots of spoken MT-Bench."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from data_schemas.config import ChatConfig
from data_schemas.config.mt_bench import MtBenchConfig
from kame_model.evaluate.answers.heard_words import warn_unheard
from kame_model.evaluate.calls.report import (
    draw_figures,
    format_costs_table,
    format_figures_table,
    list_cut_answers,
    list_examples,
    list_faults,
)
from kame_model.evaluate.calls.run import FinishedRun, Record, get_condition, make_rows
from kame_model.evaluate.judge import HIGHEST, LOWEST
from kame_model.evaluate.mt_bench.questions import MtBenchQuestions
from kame_model.evaluate.report.folder import PLOTS
from kame_model.evaluate.report.intervals import compute_figures
from kame_model.evaluate.report.plots import COLOURS, compute_error_bars, create_figure, render_png

SCORES_PLOT, CURVE_PLOT = "scores", "score_by_delay"
SCORES: Final = {"score": "heard", "score_text": "text", "score_oracle": "oracle"}
"""Measures, and the text of an answer that each one rates."""
TITLES: Final = {"score": "heard", "score_text": "own text", "score_oracle": "last oracle"}
"""Titles of the scores in tables and plots."""
_OTHERS: Final = {
    "ttfat_s": "first sound, s: mean, median, p90",
    "was_speaking": "speaking at the question's end",
    "overlap_share": "overlap",
    "heard_word_errors": "word errors, heard",
    "n_answers": "answers",
    "n_empty": "of which empty",
    "n_degenerate": "of which loops",
}
_N_REASONS: Final = 5
"""Number of reasons of failure in the report, the most frequent first."""
_N_SHOWN: Final = 6
"""Number of turns of the first run that the report shows as text."""

_NO_JUDGE: Final = (
    "**The judge is the embedded model, which is far too small to judge: these ratings show that judging works, and"
    " tell nothing of the answers.**\n"
)


def write_results(config: MtBenchConfig, questions: MtBenchQuestions, done: FinishedRun) -> list[dict[str, Any]]:
    """Writes figures.json, report.md and the plots; returns the rows of figures.json."""
    rows = make_rows(done.records, _compute_figures)
    refused = {name: each["refused"] for name, each in done.called.items() if "refused" in each}
    more = {
        "costs": done.costs,
        "left_out": {"unspeakable": questions.unspeakable, "refused_by_voice": refused},
        "n_questions": len(questions.questions),
        "n_runs": config.n_runs,
    }
    plots = {SCORES_PLOT: draw_figures(rows, TITLES)}
    if _has_curve(rows):
        plots[CURVE_PLOT] = _draw_curve(rows)
    report = _format_markdown(config, questions, rows, done, more)
    done.folder.write_results(rows, report, plots, more)
    return rows


def _compute_figures(records: Sequence[Record]) -> dict[str, Any]:
    """Computes the figures of one row, with the numbers of empty, degenerate and unrated answers."""
    faults = {name: Counter(fault for each in records if (fault := each["faults"].get(name))) for name in TITLES}
    return {
        **compute_figures(records),
        "n_answers": len(records),
        "n_empty": sum(each["measures"]["is_empty"] for each in records),
        "n_empty_text": sum(each["measures"]["is_empty_text"] for each in records),
        "n_degenerate": sum(each["measures"]["is_degenerate"] for each in records),
        "n_degenerate_text": sum(each["measures"]["is_degenerate_text"] for each in records),
        "n_unrated": {name: sum(counts.values()) for name, counts in faults.items()},
        "faults": {name: dict(counts) for name, counts in faults.items() if counts},
    }


def _format_markdown(
    config: MtBenchConfig, questions: MtBenchQuestions, rows: Sequence[Record], done: FinishedRun, more: Record
) -> str:
    """Renders the report as Markdown; `more` is as in figures.json."""
    system, judge = done.folder.run["system"], done.folder.run["judge"]
    parts = [
        f"# Spoken MT-Bench: {system['name']}\n",
        f"{len(questions.questions)} questions of {', '.join(config.categories)}, both turns, "
        f"{config.n_runs} run{'s' if config.n_runs > 1 else ''} (seed {config.seed}); asked by {config.tts}'s voices, "
        f"transcribed by {config.recogniser}. Back-end: {system['back_end']} at {system['endpoint']}. Judge: "
        f"{judge['model']} at {judge['endpoint']}, prompts "
        f"{judge['prompts']}, temperature 0.\n",
        *([_NO_JUDGE] if _is_embedded(config.judge.chat) else []),
        "Ratings from 1 to 10, in brackets 95% over questions: *heard* by the recogniser, *own text* of the model, and "
        "*last oracle*, the back-end's text alone, which is the upper bound. An empty answer has 1. An answer that "
        "repeats itself in a loop is counted, and rated by the judge as any other. Answers that the judge did not rate "
        "are excluded from the means.\n",
        *warn_unheard(rows, [get_condition(row).title for row in rows]),
        format_figures_table([row for row in rows if "category" not in row], TITLES | _OTHERS),
        f"![Ratings by category]({PLOTS}/{SCORES_PLOT}.png)\n",
        *([f"![Rating against the back-end's delay]({PLOTS}/{CURVE_PLOT}.png)\n"] if _has_curve(rows) else []),
        "## By category\n",
        format_figures_table([row for row in rows if "category" in row], TITLES),
        "## Missing ratings and failures\n",
        *_list_missing(questions, rows, done, more),
        "\n## Cost\n",
        format_costs_table(more["costs"]),
        "## The first conversations, with their ratings\n",
        *list_examples(
            [each for each in done.records if each["run"] == 0],
            lambda record: f"{record['unit']} ({record['row']['category']}): {record['question']}",
            _list_texts,
            _N_SHOWN,
        ),
    ]
    return "\n".join(parts)


def _list_texts(record: Record) -> dict[str, object]:
    """Returns the texts of an answer, each with its rating or the reason why it has none."""
    texts: dict[str, object] = {}
    for name, title in TITLES.items():
        rating = record["measures"][name]
        rated = record["faults"].get(name) if rating is None else f"{rating:g}"
        texts[title] = rated and f"({rated}) {record['answer'][SCORES[name]] or ''}"
    return texts


def _has_curve(rows: Sequence[Record]) -> bool:
    """Returns whether the rows have two forced delays or more, so that a curve over the delay can be drawn."""
    return len({row["delay_s"] for row in rows} - {None}) > 1


def _is_embedded(chat: ChatConfig) -> bool:
    """Returns whether a chat model is the embedded one that is used by default."""
    return chat.engine == "llamacpp" and chat.model is None


def _list_missing(
    questions: MtBenchQuestions, rows: Sequence[Record], done: FinishedRun, more: Record
) -> Iterator[str]:
    """Yields lines on questions that could not be asked, answers that were not rated, and failures."""
    for question_id, why in questions.unspeakable.items():
        yield f"- Question {question_id} cannot be spoken and was skipped: {why}"
    for name, why in more["left_out"]["refused_by_voice"].items():
        yield f"- {name}: the voice cannot say it: {why}"
    yield from list_faults(done.records, TITLES)
    yield from list_cut_answers(rows)
    reasons = Counter(reason for each in done.called.values() for reason in each["failures"])
    for reason, n in reasons.most_common(_N_REASONS):
        yield f"- {n} times: {reason}"
    if len(reasons) > _N_REASONS:
        yield f"- {len(reasons) - _N_REASONS} other reasons of failed requests (conversations/items.jsonl)"


def _draw_curve(rows: Sequence[Record]) -> bytes:
    """Plots the ratings against the back-end's forced delay, one panel a mode; direct is a horizontal line."""
    whole = [row for row in rows if "category" not in row]
    modes = list(dict.fromkeys(row["mode"] for row in whole if row["delay_s"] is not None))
    direct = next((row for row in whole if row["mode"] == "direct"), None)
    picture = create_figure(1 + 4.2 * len(modes), 3.6)
    panels = picture.subplots(1, len(modes), squeeze=False, sharey=True)[0]
    for axes, mode in zip(panels, modes, strict=True):
        forced = [row for row in whole if row["mode"] == mode and row["delay_s"] is not None]
        longest_s = max(row["delay_s"] for row in forced)
        for place, (measure, title) in enumerate(TITLES.items()):
            points = sorted((row for row in forced if row[measure] is not None), key=lambda row: float(row["delay_s"]))
            at = [row["delay_s"] + (place - 1) * 0.01 * longest_s for row in points]  # apart, so that all are visible
            values = [row[measure] for row in points]
            reach = compute_error_bars(values, [row[f"{measure}_interval"] for row in points])
            axes.errorbar(at, values, yerr=reach, fmt="o-", color=COLOURS[place], label=title)
        if direct is not None and direct["score"] is not None:
            axes.axhline(direct["score"], color="black", linestyle=":", label="direct, heard")
        axes.set_title(mode, fontsize="medium")
        axes.set_xlabel("delay of the back-end, seconds")
        axes.set_ylim(LOWEST - 0.2, HIGHEST)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("rating")
    handles, labels = panels[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside upper left", ncols=len(labels), frameon=False)
    return render_png(picture)
