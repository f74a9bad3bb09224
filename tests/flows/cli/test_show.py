"""What people see: every word, every event, every figure; texts with brackets as they are."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from data_schemas.reader import DatasetReader
from data_schemas.records import AudioDialogue, OracleRow
from flows.cli import show
from pipelines.figures import Figures
from pipelines.quality.check import DatasetFault


def seen(what: RenderableType, width: int = 200) -> str:
    console = Console(width=width, record=True, markup=False, emoji=False, quiet=False, file=None)
    with console.capture() as capture:
        console.print(what)
    return capture.get()


@pytest.fixture(scope="module")
def shown(made: Path) -> tuple[AudioDialogue, OracleRow]:
    row, oracle = DatasetReader(str(made)).read_dialogue()
    assert oracle is not None
    return row, oracle


def test_a_dialogue_shows_each_word_once_and_each_event_once(shown: tuple[AudioDialogue, OracleRow]) -> None:
    row, oracle = shown
    lines = [re.split(r"\s*[│|]\s*", line) for line in seen(show.render_dialogue(row, oracle), 400).splitlines()]
    table = [cells for cells in lines if len(cells) == 5 and re.fullmatch(r"\s*[\d.]+", cells[0])]
    said = " ".join(cells[3].strip() for cells in table).split()
    assert said == [word.word for turn in row.turns for each in turn.utterances for word in each.words]
    assert sum("level" in cells[4] for cells in table) == len(oracle.events)


def test_an_event_is_shown_beside_the_utterance_in_which_it_is(shown: tuple[AudioDialogue, OracleRow]) -> None:
    """A question in two breaths is two utterances of one turn."""
    row, oracle = shown
    turn = next(each for each in row.turns if each.turn_index == oracle.events[0].turn_index)
    whole = turn.utterances[0]
    half = len(whole.words) // 2
    parts = [replace(whole, words=whole.words[:half]), replace(whole, words=whole.words[half:])]
    turns = tuple(replace(each, utterances=tuple(parts)) if each is turn else each for each in row.turns)
    text = seen(show.render_dialogue(replace(row, turns=turns), oracle), 400)
    assert [f"{event.t_s:.2f}" for event in oracle.events] == re.findall(r"([\d.]+)s r=", text)


def test_words_have_their_times_the_ladder_its_events_and_a_dialogue_needs_no_oracles(
    shown: tuple[AudioDialogue, OracleRow],
) -> None:
    row, oracle = shown
    last = row.turns[1].utterances[0].words[-1]
    assert last.word in seen(show.render_dialogue(row, None))
    ladder = seen(show.render_ladder(oracle))
    assert all(f"{event.n_words_heard}/{event.n_words}" in ladder for event in oracle.events)
    words = re.sub(r"\s+", " ", seen(show.render_words(row), 5_000))
    assert f"{last.word} {last.start_s:.2f}-{last.end_s:.2f}" in words


def test_figures_name_sources_of_which_all_was_refused() -> None:
    figures = Figures()
    figures.rejects["mine", "not_json"] = 3
    rows = [line.split() for line in seen(show.render_figures(figures)).replace("│", " ").splitlines()]
    assert ["mine", "0", "0.0", "3"] in rows


def test_faults_are_shown_with_brackets_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    show.open_console().print(
        show.render_faults([DatasetFault("data/[/x].parquet", "file exists", "[bold]missing :smile:")])
    )
    told = capsys.readouterr().out
    assert "data/[/x].parquet" in told
    assert "[bold]missing :smile:" in told
