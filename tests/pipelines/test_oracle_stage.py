"""Events of a dialogue against the double: who asked, who shares, what failed, and what is said in the end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from backends.chat.client import ChatUsage
from backends.chat.double import DoubleEngine, Fault
from backends.protocols import ChatClient
from data_schemas.arrow import from_table
from data_schemas.config import ChatConfig, OracleConfig, RefreshConfig
from data_schemas.errors import BackendError
from data_schemas.records import Dialogue, OracleRow
from pipelines.oracle.stage import OracleStage, spoken_answer
from pipelines.reader import DatasetReader
from pipelines.script.speakable import Unspeakable, spoken_words
from pipelines.stations import oracle_stage
from pipelines.store import Store


@pytest.fixture(scope="module")
def dialogues(made: Path) -> list[tuple[Dialogue]]:
    reader = DatasetReader(str(made))
    tables = [Store(str(made)).read_table(entry.path) for entry in reader.manifest.of_kind("data")]
    return [(row,) for table in tables for row in from_table(table, Dialogue)]


class Run:
    """The stage on dialogues, against a double with or without faults."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.usages: list[ChatUsage] = []
        self.requests: list[dict[str, object]] = []

    def __call__(
        self,
        batch: list[tuple[Dialogue]],
        faults: tuple[Fault | None, ...] = (),
        for_ever: Fault | None = None,
        **oracle: object,
    ) -> list[OracleRow]:
        config = RefreshConfig(
            oracle=OracleConfig.model_validate(oracle),
            chat=ChatConfig(engine="double", max_attempts=1, max_in_flight=1),
        )
        engine = DoubleEngine(config.chat, faults, for_ever)
        with engine.serve() as endpoint:
            result = oracle_stage(config, endpoint, str(self.folder / "answers.sqlite"), self.usages.append).run(batch)
        self.requests = engine.requests
        assert result.rejects == []
        return result.outputs


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.fixture(scope="module")
def rows(dialogues: list[tuple[Dialogue]], tmp_path_factory: pytest.TempPathFactory) -> list[OracleRow]:
    """The rows of all dialogues with the settings we ship, every request answered."""
    return Run(tmp_path_factory.mktemp("run"))(dialogues)


def test_each_dialogue_has_a_row_with_what_wrote_it(rows: list[OracleRow], dialogues: list[tuple[Dialogue]]) -> None:
    assert [row.dialogue_id for row in rows] == [dialogue.dialogue_id for (dialogue,) in dialogues]
    assert {(row.model, row.endpoint, row.prompt_version) for row in rows} == {("double", "double", "v1")}
    assert [row.split for row in rows] == [dialogue.split for (dialogue,) in dialogues]


def test_the_last_event_is_the_true_answer_and_asks_nobody(
    rows: list[OracleRow], dialogues: list[tuple[Dialogue]]
) -> None:
    for row, (dialogue,) in zip(rows, dialogues, strict=True):
        last = row.events[-1]
        assert (last.status, last.text, last.level) == ("truth", dialogue.turns[1].body, 5)
        assert (last.raw_text, last.request_id) == (None, None)
        assert all(event.status != "truth" for event in row.events[:-1])


def test_the_truth_is_the_body_without_lead_and_tail(run: Run, dialogues: list[tuple[Dialogue]]) -> None:
    (dialogue,) = dialogues[0]
    answer = replace(dialogue.turns[1], lead="Well.", body="It is Rome.", tail="Anything else?")
    (row,) = run([(replace(dialogue, turns=(dialogue.turns[0], answer)),)])
    assert row.events[-1].text == "It is Rome."
    assert not any("Anything else" in str(request) or "Well." in str(request) for request in run.requests)


def test_events_that_share_follow_the_one_that_asked(rows: list[OracleRow]) -> None:
    statuses = set()
    for row in rows:
        first: dict[str | None, int] = {}
        for event in row.events[:-1]:
            statuses.add(event.status)
            if event.status == "answered":
                assert event.request_id not in first
                first[event.request_id] = event.level
            else:
                assert (event.status, first[event.request_id]) == ("shared", event.level)
    assert statuses == {"answered", "shared"}


def test_every_request_of_a_turn_counts_and_none_is_sent_twice(run: Run, dialogues: list[tuple[Dialogue]]) -> None:
    batch = dialogues[:2]
    rows = run(batch, max_requests_per_turn=5)
    for row in rows:
        assert sum(event.status == "answered" for event in row.events) <= 5
    n_asked = sum(event.status == "answered" for row in rows for event in row.events)
    assert len(run.requests) <= n_asked
    again = run(batch, max_requests_per_turn=5)
    assert (again, run.requests) == (rows, [])
    assert run.usages[-1].n_from_cache == n_asked


def test_level_0_is_asked_without_the_answer_and_level_4_with_it(run: Run, dialogues: list[tuple[Dialogue]]) -> None:
    (dialogue,) = dialogues[0]
    (row,) = run([(dialogue,)])
    asked = [request["messages"][-1]["content"] for request in run.requests]  # type: ignore[index]
    levels = [event.level for event in row.events if event.status == "answered"]
    assert len(asked) == len(levels)
    body = dialogue.turns[1].body
    assert {level: body in text for level, text in zip(levels, asked, strict=True)} == {
        level: level >= 2 for level in levels
    }


def test_a_request_that_fails_leaves_failed_events_without_text(run: Run, dialogues: list[tuple[Dialogue]]) -> None:
    (row,) = run(dialogues[:1], faults=(422,))
    failed = [event for event in row.events if event.status == "failed"]
    assert failed
    assert {(event.text, event.raw_text, event.request_id) for event in failed} == {(None, None, None)}
    assert all(event.error and event.error.startswith("request: ") for event in failed)
    assert all(event.error is None for event in row.events if event.status != "failed")
    assert [event.status for event in row.events][-1] == "truth"
    assert any(event.status == "answered" for event in row.events)


def test_a_failed_request_is_asked_again_by_the_next_run(run: Run, dialogues: list[tuple[Dialogue]]) -> None:
    run(dialogues[:1], faults=(422,))
    (row,) = run(dialogues[:1])
    assert len(run.requests) == 1
    assert all(event.status != "failed" for event in row.events)


@pytest.mark.parametrize("fault", [401, "hang-up"])
def test_a_back_end_that_is_gone_stops_the_stage(run: Run, dialogues: list[tuple[Dialogue]], fault: Fault) -> None:
    with pytest.raises(BackendError):
        run(dialogues[:1], for_ever=fault)


def test_what_identifies_the_stages_work(tmp_path: Path) -> None:
    def matters(oracle: OracleConfig, model: str = "double", seed: int = 0) -> object:
        @asynccontextmanager
        async def nobody() -> AsyncIterator[ChatClient]:
            await asyncio.sleep(0)
            raise AssertionError("nobody is asked")
            yield

        endpoint = replace(DoubleEngine(ChatConfig()).describe(), model=model)
        return OracleStage(oracle, seed, endpoint, nobody).matters()

    same = matters(OracleConfig())
    assert matters(OracleConfig(prompt="v1")) == same
    assert matters(OracleConfig(max_words=29)) != same
    assert matters(OracleConfig(), model="other") != same
    assert matters(OracleConfig(), seed=1) != same


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("I think it is Rome.", "I think it is Rome."),
        ('"It is 4."', "It is four."),
        ("It is Rome.\n\nUser: really?", "It is Rome."),
        ("One two three. Four five six seven.", "One two three."),
        ("one two three four five six seven", "one two three four five"),
        ("One, two, three, four, five, six", "One, two, three, four, five"),
    ],
)
def test_an_answer_is_cut_to_whole_sentences_that_can_be_said(raw: str, said: str) -> None:
    assert spoken_answer(raw, max_words=5) == said
    assert len(spoken_words(said)) <= 5


@pytest.mark.parametrize("raw", ["", "  \n ", "∀x∃y"])
def test_an_answer_that_cannot_be_said_is_refused(raw: str) -> None:
    with pytest.raises(Unspeakable):
        spoken_answer(raw, max_words=5)
