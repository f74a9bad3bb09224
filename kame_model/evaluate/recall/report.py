"""The report (Markdown) and the plots of an evaluation of recall."""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from kame_model.evaluate.answers.heard_words import warn_unheard
from kame_model.evaluate.recall.items import Record, get_condition
from kame_model.evaluate.recall.lenient import count_causes
from kame_model.evaluate.recall.turns import GROUPS
from kame_model.evaluate.report.folder import PLOTS, format_table, format_with_interval
from kame_model.evaluate.report.held_out import format_test_evaluations
from kame_model.evaluate.report.intervals import TIME
from kame_model.evaluate.report.plots import COLOURS, compute_error_bars, create_figure, render_png

N_SHOWN: Final = 4
_PLOTS: Final = {
    "delays": "Said once and right first over the back-end's delay",
    "channels": "What the users' sound went through",
}

_OF_WORDS: Final = {"words_in_order": "in order", "words_repeated": "repeated", "words_inserted": "inserted"}
_OF_ANSWERS: Final = {
    "told_in_time": "told in time",
    "said_once": "said once",
    "right_first": "right first",
    "said": "said",
    "said_anywhere": "said anywhere",
    "said_another": "another answer",
    "answered_early": "before the end",
    "heard": "heard",
    "heard_word_errors": "word errors, heard",
    "silent": "silent",
    **_OF_WORDS,
    "first_word_s": "first word, s",
    "key_word_s": "answer, s",
}
_OF_STRANGERS: Final = {
    "said_stranger": "its answer",
    "said_stranger_once": "its answer once",
    "said": "the true one",
    "silent": "silent",
    **_OF_WORDS,
}
_OF_CORRECTIONS: Final = {
    "corrected": "begun",
    "in_mid_answer": "in mid-answer",
    "said_at_last": "right at last",
    "said_stranger_after": "the wrong one said again",
    "silent": "silent",
}
_OF_OLD: Final = {
    "old_said": "old: said",
    "old_said_too_often": "old: too often",
    "old_word_errors": "old: word errors",
    "old_said_stranger": "old: its answer",
    "old_corrected_in_lead": "old: corrected within the lead",
}
_OF_NEW: Final = {"said": "said", "said_once": "said once", "said_stranger": "its answer", "corrected": "begun"}
_TITLES: Final = {("right", "none"): _OF_ANSWERS, ("wrong",): _OF_STRANGERS, ("corrected",): _OF_CORRECTIONS}
"""Columns of the tables, by the oracles of their rows."""
_DRAWN: Final = ("said_once", "right_first", "said")

_MEANINGS: Final = """\
- *said once*: in the turn the answer's key words are said exactly once as consecutive words (or as often as by an
  oracle that repeats them), and no other number, or option that the question offers, is said. A number of the oracle
  may be said as often as by the oracle, on the same side of the key words.
- *right first*: the key words are said, and before them no other number or option. Only for turns whose answer has a
  number, or whose question offers options: for others no other answer can be recognised.
- Key words that are denied do not count ("it is not the treaty").
- *said*: the key words are in the turn, however often; *said anywhere*: or later, to the dialogue's end.
- *another answer*: another number or option is said. *before the end*: the key words or another answer are said while
  the user is still asking; *right first* counts these words, too. *silent*: nothing is said.
- *told in time*: all of the oracle arrived before the end of the turn (of a last turn: of the silence after it).
- *heard*: a recogniser hears the key words in the decoded sound of the turn; *word errors*: word error rate of what it
  hears against the model's own text.
- *in order*: share of the oracle's words that were said in order; *repeated*: other words that had been said before,
  and *inserted*: that had not, both relative to the oracle's words. Leads and tails count as inserted.
- *first word*, *answer*: medians, from the end of the question to the turn's first word, and to its first key word.
- *old*: the rule before version 3, for the dialogue's first turn. *said*: the answer's first number, or else all of its
  words, to the dialogue's end, however often; *too often*: of those, more often than the oracle; *word errors*: against
  the oracle, including leads; *corrected within the lead*: nothing of the wrong answer was said before its correction.
- *r*: the same figure for the recording of the dialogue, by the same rule.
"""
_MEANINGS_OF_STRANGERS: Final = """\
- *wrong*: the oracle is another dialogue's. *its answer once*: that one's key words once and no other answer; *the true
  one*: the answer to the question asked, which no oracle contained.
- *corrected*: the same, until the right oracle arrives, {after_s:g} s after the third word of the wrong answer.
  *begun*: the wrong answer was started; the other figures are only of these turns. *in mid-answer*: the wrong oracle's
  words had not all been said by then. *right at last*: after the correction the right answer was said, and then not
  the wrong one.
"""


def format_markdown(
    run: Record, rows: Sequence[Record], records: Sequence[Record], more: Record, plots: Container[str]
) -> str:
    """Renders the report: settings, warnings, tables by group, plots, the old rule, definitions and first dialogues.

    Args:
        run, rows: as in figures.json.
        records: records of the items.
        more: the further keys of figures.json, such as `costs` and `looks_at_test`.
        plots: names of the plots that were drawn; only these are shown.
    """
    parts = [f"# {run['system']['name']}: recall\n", _format_settings(run, more)]
    parts += warn_unheard(rows, [get_condition(row).title for row in rows])
    parts += _warn_of_recordings(rows)
    for group in GROUPS:
        own = [row for row in rows if row["group"] == group]
        parts += [f"## {group[0].upper()}{group[1:]}\n"] * bool(own)
        for oracles, titles in _TITLES.items():
            parts += _format_tables([row for row in own if row["oracle"] in oracles], titles)
    parts += [f"![{said}]({PLOTS}/{name}.png)\n" for name, said in _PLOTS.items() if name in plots]
    parts += _format_old_rule(rows, records)
    parts += ["## What is counted\n", _MEANINGS + _MEANINGS_OF_STRANGERS.format(after_s=run["correction_after_s"])]
    parts += ["## Examples\n", *_format_dialogues(records)]
    return "\n".join(parts)


def _warn_of_recordings(rows: Sequence[Record]) -> Iterator[str]:
    """Yields a warning for each row of the right oracle in which not all recordings say their answer once.

    That is a fault of the rule, which lowers the model's figure too. Rows of degraded audio are not checked.
    """
    for row in rows:
        recorded, is_first = row.get("recorded_said_once"), row["oracle"] == "right" and row["channel"] is None
        if is_first and recorded is not None and recorded < 1:
            yield (
                f"**{get_condition(row).title}, {row['group']}: of the recordings themselves {recorded:.1%} say their "
                "answer once by this rule. On the others the rule is at fault, and the model's figure is too low by as "
                "many items at most.**\n"
            )


def _format_old_rule(rows: Sequence[Record], records: Sequence[Record]) -> Iterator[str]:
    """Yields a comparison of the rule before version 3 with the current one, on the same words, and reasons."""
    own = [row for row in rows if row["group"] == GROUPS[0] and any(row.get(name) is not None for name in _OF_OLD)]
    if not own:
        return
    yield f"## The old rule, on the same words\n\n{GROUPS[0].capitalize()}; meanings below.\n"
    names = [name for name in _OF_OLD | _OF_NEW if any(row.get(name) is not None for row in own)]
    cells = [[get_condition(row).title, *(_format_cell(row, name) for name in names)] for row in own]
    yield format_table(["oracle", *((_OF_OLD | _OF_NEW)[name] for name in names)], cells)
    for row in own:
        if row["oracle"] == "right":
            of_row = [each for each in records if all(row[name] == value for name, value in each["row"].items())]
            causes = "; ".join(f"{n} {cause}" for cause, n in count_causes(of_row).most_common())
            yield f"- {get_condition(row).title}, from *old: said* to *said once*: {causes or 'the same turns'}."
    yield ""


def _format_settings(run: Record, more: Record) -> str:
    """Renders the settings of the evaluation, and how long it took, as paragraphs."""
    sampling = run["system"]["sampling"]
    how = f"text at temperature {sampling['temp_text']:g}" if sampling["use_sampling"] else "always the likeliest token"
    costs = more["costs"]
    paragraphs = [
        f"Dialogues of the split {', '.join(run['splits'])}, run freely; {how}; seed {run['seed']}. The model hears "
        "the recorded user and its own voice, and reads its own text. After the end of a recording the user waits in "
        f"silence for {run['silence_after_s']:g} s. In brackets 95 % over items.",
    ]
    if more["looks_at_test"] is not None:
        paragraphs.append(format_test_evaluations(more["looks_at_test"]))
    if more["n_without_other_voices"] is not None:
        paragraphs.append(
            f"*Other voices*: the same words in the rows of {run['voices']}; {more['n_without_other_voices']} "
            "dialogues have none there. Whether training never heard those voices, the datasets' cards say."
        )
    paragraphs.append(f"{costs['dialogue_s']:,.0f} s of dialogue were run in {costs['run_s']:,.0f} s.")
    return "\n\n".join(paragraphs) + "\n"


def _format_tables(rows: Sequence[Record], titles: Mapping[str, str]) -> Iterator[str]:
    """Formats a table of the rows, if there are any, with the figures that at least one of them has."""
    names = [name for name in titles if any(row.get(name) is not None for row in rows)]
    if rows:
        cells = [[get_condition(row).title, row["n"], *(_format_cell(row, name) for name in names)] for row in rows]
        yield format_table(["oracle", "items", *(titles[name] for name in names)], cells)


def _format_cell(row: Record, name: str) -> str | None:
    """Formats one figure of a condition: a share with its interval, a share of the oracle's words, or a median time.

    It ends with the same figure of the recording ("r 74%"), and with the number of items that have it ("of 58") if not
    all do. None if the row lacks the figure.
    """
    figure, form = (f"{name}_median", ".2f") if name.endswith(TIME) else (name, ".0%")
    is_share = not name.endswith(TIME) and name not in _OF_WORDS
    cell = format_with_interval(row.get(figure), row.get(f"{name}_interval") if is_share else None, form)
    if cell is None:
        return None
    recorded, n = row.get(f"recorded_{figure}"), row.get(f"{name}_n") if is_share else None
    return cell + ("" if recorded is None else f" r {recorded:{form}}") + ("" if n is None else f" of {n}")


def _format_dialogues(records: Sequence[Record]) -> Iterator[str]:
    """Yields the texts of the first dialogues: for each a heading, and a line for each condition and turn."""
    for dialogue_id in list(dict.fromkeys(each["dialogue_id"] for each in records))[:N_SHOWN]:
        own = [each for each in records if each["dialogue_id"] == dialogue_id]
        yield f"**{dialogue_id}** ({own[0]['form']}); oracle: *{own[0]['told']}*; recording: *{own[0]['recorded']}*\n"
        for each in own:
            turn = "" if each["turn"] == own[0]["turn"] else f", turn {each['turn'] + 1}"
            heard = "" if each["heard"] is None else f" / *heard:* {each['heard']}"
            yield f"- {get_condition(each['row']).title}{turn}: {each['said'] or '(nothing)'}{heard}"
        yield ""


def draw_plots(rows: Sequence[Record]) -> dict[str, bytes]:
    """Draws the plots by name: figures against the back-end's delay, and by channel of the users' audio.

    They show only answers that are not in the question. The plot by delay is missing with one delay, that by channel
    without channels. The same rows give the same bytes.

    Raises:
        ConfigError: matplotlib is not installed, and there is a plot to draw.
    """
    own = [row for row in rows if row["group"] == GROUPS[0] and row["oracle"] == "right"]
    plain = sorted((row for row in own if row["channel"] is None), key=lambda row: float(row["delay_s"]))
    worse = [row for row in own if row["channel"] is not None]
    plots = {}
    if len(plain) > 1:
        plots["delays"] = _draw_shares(plain, [float(row["delay_s"]) for row in plain])
    if worse:
        plots["channels"] = _draw_shares([row for row in plain if row["delay_s"] == worse[0]["delay_s"]] + worse, None)
    return plots


def _draw_shares(rows: Sequence[Record], delays_s: Sequence[float] | None) -> bytes:
    """Plots shares of rows against their delays, or side by side by channel. Returns a PNG."""
    figure = create_figure(6.4, 4.2)
    axes = figure.subplots()
    for number, (name, colour) in enumerate(zip(_DRAWN, COLOURS, strict=False)):
        at = delays_s or [place + 0.15 * (number - 1) for place in range(len(rows))]
        values = [np.nan if row[name] is None else row[name] for row in rows]
        bars = compute_error_bars(values, [row[f"{name}_interval"] for row in rows])
        line = "-" if delays_s else ""
        axes.errorbar(at, values, bars, color=colour, marker="o", capsize=3, linestyle=line, label=_OF_ANSWERS[name])
        if delays_s:
            recorded = [np.nan if row[f"recorded_{name}"] is None else row[f"recorded_{name}"] for row in rows]
            axes.plot(at, recorded, color=colour, linestyle=":", linewidth=1)
    if delays_s:
        axes.set_xlabel("delay of the back-end, s (dotted: the recording itself)")
    else:
        channels = [(row["channel"] or "as recorded").replace("-", " ") for row in rows]
        axes.set_xticks(range(len(rows)), channels, rotation=20)
        axes.set_xlim(-0.5, len(rows) - 0.5)
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel("share of items")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return render_png(figure)
