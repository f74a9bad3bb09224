"""Figures of what a recogniser heard: sums over utterances, from a dataset's files alone."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from data_schemas.arrow import to_table
from data_schemas.manifest import DatasetCounts, ShardEntry, make_manifest
from data_schemas.records import AudioDialogue, Hearing, OracleEvent, OracleRow
from data_schemas.store import Store, WrittenFile
from pipelines.figures import Figures, count_figures, list_tables
from pipelines.run.publish import render_card
from tests.support import mixed as made
from tests.support.token_rows import event, oracle_row

PATH = "data/train.parquet"


def hearing(n_words: int, n_errors: int, n_numbers: int = 0, n_heard: int = 0, n_takes: int = 1) -> Hearing:
    return Hearing(
        text="what was heard", n_words=n_words, n_word_errors=n_errors, n_numbers=n_numbers, n_numbers_heard=n_heard,
        n_names=1, n_names_heard=1, n_takes=n_takes,
    )  # fmt: skip


def row(dialogue_id: str, source: str, form: str, hearings: list[Hearing | None]) -> AudioDialogue:
    one = made.interrupted() if form == "interruption" else made.plain()
    clips = made.clips_of(one, hearings)
    (found,) = made.mix(one, clips=clips).outputs
    return replace(found, dialogue_id=dialogue_id, source=source, form=form)


def entry_of(kind: Literal["data", "oracle"], n_rows: int, written: WrittenFile) -> ShardEntry:
    return ShardEntry(
        path=PATH, kind=kind, source="mine", split="train", oracle_version="default" if kind == "oracle" else None,
        n_rows=n_rows, n_bytes=written.n_bytes, sha256=written.sha256,
    )  # fmt: skip


def counted(tmp_path: Path, rows: list[AudioDialogue]) -> tuple[Figures, str]:
    store = Store(str(tmp_path))
    written = store.write_table(PATH, to_table(rows, AudioDialogue))
    entry = entry_of("data", len(rows), written)
    figures = count_figures(store, [entry], "default")
    manifest = make_manifest([entry], DatasetCounts(dialogues=len(rows), audio_s=0.0, events=0, rejects=0), "default")
    return figures, render_card(manifest, figures)


def rows_of(figures: Figures, key: str) -> list[tuple[object, ...]]:
    (table,) = [each for each in list_tables(figures) if each.key == key]
    return table.rows


def test_rates_are_sums_over_utterances_by_source_form_and_voice(tmp_path: Path) -> None:
    rows = [
        row("one", "gsm8k", "plain", [hearing(10, 1, 2, 2), hearing(30, 0, 1, 1, n_takes=3)]),
        row("two", "mine", "plain", [hearing(40, 1), None]),
        row("three", "mine", "interruption", [None, hearing(20, 4, 4, 3, n_takes=2), None, None]),
    ]
    figures, card = counted(tmp_path, rows)
    head = "utterances", "retakes", "WER %", "numbers heard %", "names heard %"
    assert all(each.head[1:] == head for each in list_tables(figures) if each.key.startswith("heard-by"))
    by_source = [("gsm8k", 2, 2, 2.5, 100.0, 100.0), ("mine", 2, 1, 8.33, 75.0, 100.0)]
    assert rows_of(figures, "heard-by-source") == by_source
    by_form = [("interruption", 1, 1, 20.0, 75.0, 100.0), ("plain", 3, 2, 2.5, 100.0, 100.0)]
    assert rows_of(figures, "heard-by-form") == by_form
    by_voice = [("double_a", 2, 3, 8.0, 80.0, 100.0), ("double_b", 2, 0, 4.0, 100.0, 100.0)]
    assert rows_of(figures, "heard-by-voice") == by_voice
    assert rows_of(figures, "dialogues-by-form") == [("interruption", 1, 33.3), ("plain", 2, 66.7)]
    assert "A recogniser (double) listened to 4 of 8 utterances" in card
    assert "| gsm8k | 2 | 2 | 2.5 | 100.0 | 100.0 |" in card


@pytest.mark.parametrize("n_rows", [0, 1])
def test_a_dataset_that_nobody_listened_to_says_so(tmp_path: Path, n_rows: int) -> None:
    figures, card = counted(tmp_path, [row("one", "mine", "plain", [None, None])] * n_rows)
    assert not [each.key for each in list_tables(figures) if each.key.startswith("heard")]
    assert "No recogniser listened" in card


def test_each_engine_is_counted_once_a_dialogue_by_its_role(tmp_path: Path) -> None:
    rows = [
        row("one", "mine", "plain", [hearing(9, 0), None]),
        by_model(row("two", "mine", "plain", []), "turns 0, 1 by wordy"),
        by_model(row("three", "mine", "plain", []), "turns 0 by wordy"),
    ]
    figures, card = counted(tmp_path, rows)
    assert rows_of(figures, "engines") == [
        ("script", "made", 3), ("wording", "wordy", 2), ("speech", "double", 3), ("listener", "double", 1),
        ("listener", "nobody", 2), ("aligner", "double", 3),
    ]  # fmt: skip
    assert "| aligner | double | 3 |" in card
    one = row("one", "mine", "plain", [])
    two = replace(one, provenance=replace(one.provenance, tts="piper; users by kokoro"))
    speech = [each for each in rows_of(counted(tmp_path, [one, two])[0], "engines") if "speech" in str(each[0])]
    assert speech == [("speech", "double", 1), ("speech", "piper", 1), ("users' speech", "kokoro", 1)]


def by_model(found: AudioDialogue, turns: str) -> AudioDialogue:
    by = found.provenance
    return replace(found, provenance=replace(by, script_method=f"{by.script_method}; {turns}"))


def test_answers_are_counted_by_the_model_that_gave_them(tmp_path: Path) -> None:
    def answered(number: int, by: str | None, status: str = "answered") -> OracleEvent:
        return event(number, t_s=0.5, r=0.5, text="Maybe.", status=status, request_id="r", answered_by=by)

    asked = oracle_row(answered(0, "big-2025-04-14"), answered(1, "small"), answered(2, "small", "shared"))
    rows = [replace(asked, model="big"), oracle_row(answered(0, None), event(1, t_s=1.0, r=1.0, text="So."))]
    store = Store(str(tmp_path))
    entry = entry_of("oracle", len(rows), store.write_table(PATH, to_table(rows, OracleRow)))
    assert rows_of(count_figures(store, [entry], "default"), "answered-by") == [
        ("default", "", "not told", "no", 1),
        ("default", "big", "big-2025-04-14", "yes", 1),
        ("default", "big", "small", "no", 1),
    ]
