"""A checkpoint and token rows to a report: each habit of a front-end costs the figure that is meant, and no other."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_schemas.config.recall import RecallConfig
from kame_model.checkpoint.load import Checkpoint
from kame_model.encode.rows import TokenRow
from kame_model.evaluate.recall.evaluate import evaluate_recall, list_free_shares
from kame_model.evaluate.recall.turns import find_turns
from kame_model.evaluate.report.folder import read_figures, read_items
from kame_model.frames.ids import PADDING_ID
from kame_model.text.tokenizer import Tokenizer
from tests.support.recall_rows import AGAIN as AGAIN_FRAME
from tests.support.recall_rows import recall_row, write_recall_rows
from tests.support.scripted_front_end import Habits, ScriptedCodec, ScriptedGenerator, hear_with

pytestmark = pytest.mark.full

QUIET: dict[str, Any] = {"n_sounds": 0}
ONE_DELAY: dict[str, Any] = {**QUIET, "delays_s": [0.32]}


@pytest.fixture
def evaluated(
    checkpoint: Checkpoint, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[tuple[Any, ...], dict[str, Any]]]:
    """Rows of a front-end with certain habits, by oracle, delay, channel and group."""
    monkeypatch.setattr(Checkpoint, "load_codec", lambda self, device="cpu": ScriptedCodec())

    def evaluate(
        habits: Habits, rows: list[TokenRow] | None = None, config: dict[str, Any] | None = None, **given: Any
    ) -> dict[tuple[Any, ...], dict[str, Any]]:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        rows = rows or [recall_row(1, "five clips", tokenizer), recall_row(2, "six clips", tokenizer)]
        dataset = write_recall_rows(tmp_path / "rows", rows, tokenizer)
        found = evaluate_recall(
            checkpoint,
            dataset,
            RecallConfig(**ONE_DELAY | (config or {})),
            str(tmp_path / "out"),
            generator=partial(ScriptedGenerator, habits=habits),
            hear=partial(hear_with, tokenizer),
            **given,
        )
        return {(row["oracle"], row["delay_s"], row["channel"], row["group"]): row for row in found}

    return evaluate


NEW, AGAIN = "answer not in the question", "asked again"
RIGHT, NONE = ("right", 0.32, None, NEW), ("none", None, None, NEW)
PERFECT = {
    "said_once": 1.0,
    "right_first": 1.0,
    "said": 1.0,
    "said_anywhere": 1.0,
    "said_another": 0.0,
    "answered_early": 0.0,
    "silent": 0.0,
    "heard": 1.0,
    "words_in_order": 1.0,
    "words_repeated": 0.0,
    "words_inserted": 0.0,
}


def shares(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in PERFECT if name in row}


Evaluated = Callable[..., dict[tuple[Any, ...], dict[str, Any]]]


@pytest.mark.parametrize("delay_s", [0.1, 0.32, 1.0, 2.0, 3.0])
def test_who_waits_for_the_oracle_and_says_it_once_has_every_figure(evaluated: Evaluated, delay_s: float) -> None:
    rows = evaluated(Habits(), config={"delays_s": [delay_s]})
    found = rows["right", delay_s, None, NEW]
    assert shares(found) == PERFECT
    assert found["n"] == 2
    assert found["key_word_s_median"] == pytest.approx(found["first_word_s_median"] + 0.16)
    assert found["first_word_s_median"] >= delay_s - 0.08


def test_without_an_oracle_nothing_is_said(evaluated: Evaluated) -> None:
    found = evaluated(Habits())
    names = ("said_once", "right_first", "heard", "said_anywhere", "silent")
    assert [found[NONE][name] for name in names] == [0, 0, 0, 0, 1]
    assert found[NONE]["first_word_s"] is None
    recorded = {name: found[RIGHT][f"recorded_{name}"] for name in PERFECT}
    assert recorded == PERFECT | {"words_inserted": 0.25}, "its lead"


def test_what_a_back_end_tells_after_the_turn_is_told_too_late(evaluated: Evaluated, tokenizer: Tokenizer) -> None:
    rows = [recall_row(1, "five clips", tokenizer, n_frames=50), recall_row(2, "six clips", tokenizer)]
    for delay_s, silence_after_s, share in ((1.0, 0.0, 1.0), (3.0, 0.0, 0.5), (3.0, 6.0, 1.0)):
        found = evaluated(Habits(), rows, {"delays_s": [delay_s], "silence_after_s": silence_after_s})
        row = found["right", delay_s, None, NEW]
        assert [row[name] for name in ("told_in_time", "said_once", "heard")] == [share] * 3


def test_a_correction_near_the_recordings_end_is_heard_out_while_the_user_waits(
    evaluated: Evaluated, tokenizer: Tokenizer
) -> None:
    rows = [recall_row(at, f"{word} clips", tokenizer, n_frames=50) for at, word in ((1, "five"), (2, "six"))]
    for silence_after_s, share in ((0.0, 0.0), (6.0, 1.0)):
        found = evaluated(Habits(), rows, {"correction_after_s": 2.0, "silence_after_s": silence_after_s})
        assert found["corrected", 0.32, None, NEW]["said_at_last"] == share


def test_what_is_said_after_a_recording_counts(evaluated: Evaluated, tokenizer: Tokenizer) -> None:
    rows = [recall_row(at, f"{word} clips", tokenizer, n_frames=50) for at, word in ((1, "five"), (2, "six"))]
    talks_on = Habits(after=[PADDING_ID] * 30 + tokenizer.encode("it is seven clips"))
    cut_off, heard_out = (evaluated(talks_on, rows, {"silence_after_s": each})[RIGHT] for each in (0.0, 6.0))
    assert (cut_off["said_once"], heard_out["said_once"]) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("habit", "lost"),
    [
        ({"n_times": 2}, {"said_once": 0.0, "words_repeated": 1.0}),
        ({"before": "seven"}, {"said_once": 0.0, "right_first": 0.0, "said_another": 1.0, "words_inserted": 0.25}),
        ({"after": "seven"}, {"said_once": 0.0, "said_another": 1.0, "words_inserted": 0.25}),
        ({"early": "seven"}, {"right_first": 0.0, "answered_early": 1.0}),
        ({"early": "well"}, {}),
        ({"before": "well"}, {"words_inserted": 0.25}),
        ({"skips": 1}, {"words_in_order": 0.75}),
    ],
    ids=lambda each: "-".join(map(str, each)),
)
def test_each_habit_loses_its_figures_alone(
    evaluated: Evaluated, tokenizer: Tokenizer, habit: dict[str, Any], lost: dict[str, float]
) -> None:
    given: dict[str, Any] = {
        name: tokenizer.encode(each) if isinstance(each, str) else each for name, each in habit.items()
    }
    assert shares(evaluated(Habits(**given))[RIGHT]) == PERFECT | lost


def test_who_is_late_loses_time_alone(evaluated: Evaluated) -> None:
    in_time, late = (evaluated(Habits(wait_frames=n))[RIGHT] for n in (0, 25))
    assert shares(late) == PERFECT
    assert late["key_word_s"] == pytest.approx(in_time["key_word_s"] + 2.0)


def test_a_number_that_the_oracle_says_after_its_answer_is_another_answer_before_it(
    evaluated: Evaluated, tokenizer: Tokenizer
) -> None:
    rows = [recall_row(number, "five clips of seven", tokenizer) for number in (1, 2)]
    found = [evaluated(habits, rows)[RIGHT] for habits in (Habits(), Habits(before=tokenizer.encode("seven")))]
    assert [(each["said_once"], each["right_first"]) for each in found] == [(1.0, 1.0), (0.0, 0.0)]


def test_what_is_heard_is_compared_with_the_models_text(
    evaluated: Evaluated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = evaluated(Habits())
    assert (rows[RIGHT]["heard_word_errors"], rows[NONE]["heard_word_errors"]) == (0.0, None)
    assert "little to do with" not in (tmp_path / "out" / "report.md").read_text()
    monkeypatch.setitem(globals(), "hear_with", lambda *_: ["it", "is", "w"])  # it says "it is five clips"
    assert evaluated(Habits())[RIGHT]["heard_word_errors"] == 0.5
    monkeypatch.setitem(globals(), "hear_with", lambda tokenizer, sound: ["w"])
    assert evaluated(Habits())[RIGHT]["heard_word_errors"] == 1.0
    assert "by the recogniser are not meaningful for this voice" in (tmp_path / "out" / "report.md").read_text()


def test_right_first_is_of_answers_alone_beside_which_another_could_be_told(
    evaluated: Evaluated, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    number, worded = (recall_row(at + 1, answer, tokenizer) for at, answer in enumerate(("six", "the treaty")))
    found = evaluated(Habits(), [number, worded])[RIGHT]
    assert (found["n"], found["right_first"], found["right_first_n"], found["said_once"]) == (2, 1.0, 1, 1.0)
    found = evaluated(Habits(), [worded], {"delays_s": [0.1, 0.32]})[RIGHT]
    assert (found["right_first"], found["recorded_right_first"], found["said_once"]) == (None, None, 1.0)
    assert (tmp_path / "out" / "plots" / "delays.png").stat().st_size > 1000
    asked = replace(worded, question="Is it Yalta, or the treaty?")
    found = evaluated(Habits(before=tokenizer.encode("yalta")), [asked])["right", 0.32, None, "answer in the question"]
    assert found["right_first"] == 0.0


def test_the_old_rule_stands_beside_on_the_same_words_with_what_it_hid(
    evaluated: Evaluated, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    twice = evaluated(Habits(n_times=2))
    assert [twice[RIGHT][name] for name in ("old_said", "old_said_too_often", "said_once")] == [1.0, 1.0, 0.0]
    assert twice[NONE]["old_said"] == 0.0
    assert "2 said more often than its oracle says it" in (tmp_path / "out" / "report.md").read_text()
    rows = [recall_row(number, "five clips", tokenizer, asked_again=True) for number in (1, 2)]
    late = evaluated(Habits(is_a_turn_late=True), rows)[RIGHT]
    assert [late[name] for name in ("said_once", "right_first", "said")] == [0.0, 0.0, 0.0]
    assert (late["said_anywhere"], late["silent"]) == (1.0, 1.0)
    assert (late["old_said"], late["recorded_old_said_too_often"]) == (1.0, 1.0)
    assert "2 said in a later turn only" in (tmp_path / "out" / "report.md").read_text()


def test_a_dialogue_that_was_cut_off_and_not_answered_again_has_nothing_to_judge(tokenizer: Tokenizer) -> None:
    row = recall_row(1, "five clips", tokenizer, asked_again=True)
    once = replace(row.a, answer_mask=row.a.answer_mask & (np.arange(row.n_frames) < AGAIN_FRAME))
    forms = {form: find_turns([replace(row, form=form, a=once)], tokenizer) for form in ("plain", "interruption")}
    assert [len(found) for found in forms.values()] == [1, 0]


def test_a_wrong_oracle_is_followed_and_a_correction_counted_from_the_third_word(
    evaluated: Evaluated, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    rows = [recall_row(1, "five clips again", tokenizer), recall_row(2, "six clips again", tokenizer)]
    found = evaluated(Habits(), rows, {"correction_after_s": 0.08})
    wrong, corrected = (found[oracle, 0.32, None, NEW] for oracle in ("wrong", "corrected"))
    assert (wrong["said"], wrong["said_stranger_once"], wrong["words_in_order"]) == (0.0, 1.0, 1.0)
    told = ("corrected", "in_mid_answer", "said_at_last", "said_stranger_after")
    assert [corrected[name] for name in told] == [1.0, 1.0, 1.0, 0.0]
    (item, _) = [each for each in read_items(str(tmp_path / "out")) if each["row"]["oracle"] == "corrected"]
    words = item["said"].split()
    assert words[:5] == ["it", "is", "six", "clips", "again"]
    third_s = wrong["first_word_s"] + 2 * 0.08
    assert item["correction_s"] == pytest.approx(third_s + 0.08)


def test_channels_and_other_voices_are_rows_of_their_own(
    evaluated: Evaluated, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    rows = [recall_row(1, "five clips", tokenizer), recall_row(2, "six clips", tokenizer)]
    others = [rows[0], recall_row(2, "seven clips", tokenizer)]  # other words: not that one
    voices = write_recall_rows(tmp_path / "voices", others, tokenizer)
    found = evaluated(Habits(), rows, {"channels": ["recoded", "noise-5-db"]}, voices=voices)
    by_channel = {key[2]: row for key, row in found.items() if key[0] == "right"}
    n_by_channel = {name: row["n"] for name, row in by_channel.items()}
    assert n_by_channel == {None: 2, "recoded": 2, "noise-5-db": 2, "other voices": 1}
    assert by_channel[None]["said"] == by_channel["other voices"]["said"] == 1.0
    assert by_channel["noise-5-db"]["silent"] == 0.0, "the double hears nobody speak there, and answers"
    assert read_figures(str(tmp_path / "out"))["n_without_other_voices"] == 1
    assert (tmp_path / "out" / "plots" / "channels.png").read_bytes().startswith(b"\x89PNG")


def test_the_folder_has_report_plots_sound_and_costs(evaluated: Evaluated, tmp_path: Path) -> None:
    evaluated(Habits(), config={"delays_s": [0.1, 0.32], "n_sounds": 1})
    out = tmp_path / "out"
    told = read_figures(str(out))
    assert told["run"]["kind"] == "recall"
    assert {"costs", "versions", "checkpoint", "looks_at_test"} <= told.keys()
    assert (out / "plots" / "delays.png").read_bytes().startswith(b"\x89PNG")
    report = (out / "report.md").read_text()
    assert "100% [34%, 100%] r 100%" in report
    words = ("right, 0.1 s", "none", "corrected, 0.32 s", "mine-1-v0", "plots/delays.png")
    assert all(word in report for word in words)
    sounds = {each.name for each in (out / "sound").iterdir()}
    assert sounds == {f"mine-1-v0-{each}.wav" for each in ("right-0.32-s", "none", "wrong-0.32-s", "corrected-0.32-s")}


def test_each_turn_is_judged_and_what_comes_after_a_cut_and_new_answers_as_recorded_are_for_the_card(
    evaluated: Evaluated, tokenizer: Tokenizer
) -> None:
    rows = [recall_row(1, "five clips", tokenizer, asked_again=True), recall_row(2, "six clips", tokenizer, cut=True)]
    found = evaluated(Habits(), rows, {"channels": ["recoded"]})
    assert shares(found[RIGHT]) == PERFECT
    assert (found[RIGHT]["n"], found["right", 0.32, None, AGAIN]["n"]) == (2, 1)
    assert found["right", 0.32, None, AGAIN]["said_once"] == 1.0
    listed = list_free_shares(list(found.values()))
    told = {each.name: (each.n, each.of) for each in listed}
    assert told["said once, right oracle after 0.32 s, answer not in the question"] == (2, 2)
    assert told["said once, none oracle, answer not in the question"] == (0, 2)
    assert {(each.measure, each.oracle) for each in listed} == {
        *(
            (measure, oracle)
            for measure in ("said_once", "right_first", "said", "heard")
            for oracle in ("right", "none")
        ),
        ("said", "wrong"),
        ("said_stranger", "wrong"),
        ("said_at_last", "corrected"),
    }
