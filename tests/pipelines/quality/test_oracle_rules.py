"""Each rule of a dialogue's oracles finds the one fault that breaks it; the rows are ones that we made."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from data_schemas.config import OracleConfig
from data_schemas.records import OracleEvent, OracleRow
from pipelines.asking import run_alone
from pipelines.oracle.share import is_in_share
from pipelines.quality.oracle_rules import check_oracles, find_asked_turns
from tests.support.oracle_dialogues import Scripted, batch_of, follow_up, opened, oracle_stage

DIALOGUE = follow_up()


def made_row(**oracle: Any) -> OracleRow:
    stage = oracle_stage(OracleConfig.model_validate(oracle))
    return run_alone(stage, batch_of([DIALOGUE]), opened(Scripted())).outputs[0]


@pytest.fixture(scope="module")
def row() -> OracleRow:
    """The oracles of the dialogue, some of them shared."""
    return made_row()


def broken(row: OracleRow) -> set[str]:
    return {rule for rule, _ in check_oracles(row, find_asked_turns(DIALOGUE.turns))}


def on_event(place: int | str, **changes: Any) -> Callable[[OracleRow], OracleRow]:
    """A change of one event, by its place or the first one of a status."""

    def changed(row: OracleRow) -> OracleRow:
        events = list(row.events)
        at = place if isinstance(place, int) else [event.status for event in events].index(place)
        events[at] = replace(events[at], **changes)
        return replace(row, events=tuple(events))

    return changed


def on_request(**changes: Any) -> Callable[[OracleRow], OracleRow]:
    """A change of all events that share the request of the first one."""

    def changed(row: OracleRow) -> OracleRow:
        asked = row.events[0].request_id
        events = (replace(event, **changes) if event.request_id == asked else event for event in row.events)
        return replace(row, events=tuple(events))

    return changed


def off_the_grid(row: OracleRow) -> OracleRow:
    return on_event(1, t_s=row.events[1].t_s + 0.01)(row)


def stray(row: OracleRow) -> OracleEvent:
    return replace(row.events[0], turn_index=7, event_id=f"{row.dialogue_id}-e{len(row.events)}")


def renumbered(row: OracleRow, events: Sequence[OracleEvent]) -> OracleRow:
    numbered = (replace(event, event_id=f"{row.dialogue_id}-e{n}") for n, event in enumerate(events))
    return replace(row, events=tuple(numbered))


def without_the_second(row: OracleRow) -> OracleRow:
    return renumbered(row, [row.events[0], *row.events[2:]])


def twice_at_one_time(row: OracleRow) -> OracleRow:
    return renumbered(row, [row.events[0], *row.events])


def all_answered(row: OracleRow) -> OracleRow:
    """More requests than may be asked in a turn."""
    events = (replace(event, status="answered") if event.status == "shared" else event for event in row.events)
    return replace(row, events=tuple(events))


def outside_its_share(row: OracleRow) -> OracleRow:
    """Says that the row is of the half of the dialogues that it is not of."""
    is_low = is_in_share(row.dialogue_id, row.seed, 0, 0.5)
    return replace(row, share_from=0.5) if is_low else replace(row, share_to=0.5)


FAULTS: list[tuple[str, Callable[[OracleRow], OracleRow]]] = [
    ("provenance is complete", lambda row: replace(row, model=None)),
    ("provenance is complete", lambda row: replace(row, endpoint=None)),
    ("provenance is complete", lambda row: replace(row, prompt_digest="")),
    ("only random answers are labelled as random", lambda row: replace(row, simulator="random")),
    ("only random answers are labelled as random", lambda row: replace(row, model="random", endpoint="random")),
    ("events predict the other speaker's words", on_event(0, speaker="B")),
    ("events are numbered in order", on_event(1, event_id="x-e1")),
    ("events belong to a turn that is answered", lambda row: replace(row, events=(*row.events, stray(row)))),
    ("events are those of the schedule", lambda row: replace(row, events=row.events[:-1])),
    ("events are those of the schedule", lambda row: replace(row, events=())),
    ("events are those of the schedule", without_the_second),
    ("events are those of the schedule", twice_at_one_time),
    ("events are those of the schedule", lambda row: replace(row, interval_s=0.6)),
    ("events are those of the schedule", off_the_grid),
    ("events are those of the schedule", on_event(-1, t_s=1e4)),
    ("events are those of the schedule", on_event(0, n_words_heard=0)),
    ("events are those of the schedule", on_event(0, n_words=1_000)),
    ("events are those of the schedule", on_event(0, r=0.0)),
    ("events are those of the schedule", on_event(0, level=1)),
    ("events are those of the schedule", on_event(-1, level=4)),
    ("the schedule's settings are valid", lambda row: replace(row, interval_s=0.0)),
    ("the schedule's settings are valid", lambda row: replace(row, level_bounds=(0.5, 0.4, 0.3, 0.2))),
    ("the schedule's settings are valid", lambda row: replace(row, max_requests_per_turn=0)),
    ("the last event is the true answer at the last word's end", on_event(-1, text="Something else.")),
    ("only failed events have no text", on_request(status="failed", error="request: refused")),
    ("only failed events have no text", on_request(text=None)),
    ("only failed events have an error", on_request(status="failed", text=None)),
    ("only failed events have an error", on_request(error="request: refused")),
    ("events share what was asked for them", all_answered),
    ("events share what was asked for them", lambda row: replace(row, max_requests_per_turn=5)),
    ("events share what was asked for them", on_event("shared", request_id="foreign")),
    ("events share what was asked for them", on_event("shared", request_id=None)),
    ("events share what was asked for them", on_event("shared", text="Something else.")),
    ("events share what was asked for them", on_event("shared", raw_text="Something else.")),
    ("events share what was asked for them", on_event("shared", status="truth")),
    ("events share what was asked for them", on_event("answered", status="shared")),
    ("events share what was asked for them", on_event("answered", status="guessed")),
    ("events share what was asked for them", on_request(request_id=None)),
    ("events share what was asked for them", on_event(-1, status="answered")),
    ("events share what was asked for them", on_event(-1, attempt=0)),
    ("events share what was asked for them", on_event("shared", attempt=1)),
    ("events share what was asked for them", on_request(attempt=None)),
    ("only random answers are labelled as random", on_request(taken_from="mine-2-v0")),
    ("oracles are of their version's share", outside_its_share),
    ("events share what was asked for them", on_event(-1, request_id="foreign")),
]


@pytest.mark.parametrize(("rule", "change"), FAULTS, ids=[f"{n} {rule}" for n, (rule, _) in enumerate(FAULTS)])
def test_a_fault_breaks_its_rule_alone(row: OracleRow, rule: str, change: Callable[[OracleRow], OracleRow]) -> None:
    assert broken(row) == set()
    assert broken(change(row)) == {rule}


def test_both_directions_and_level_bounds_are_those_that_the_row_says(row: OracleRow) -> None:
    both = made_row(both_directions=True)
    assert broken(both) == set()
    assert broken(replace(both, both_directions=False)) == {"events belong to a turn that is answered"}
    other = replace(row, level_bounds=(0.01, 0.02, 0.03, 0.04))
    assert "events are those of the schedule" in broken(other)


FAILED: dict[str, Any] = dict.fromkeys(("text", "raw_text", "request_id", "attempt"))
FAILED |= {"status": "failed", "error": "request: refused"}


def test_a_request_that_failed_is_no_fault_unless_an_event_has_an_answer(row: OracleRow) -> None:
    assert broken(on_request(**FAILED)(row)) == set()
    shared = next(event for event in row.events if event.status == "shared")
    asker = next(n for n, event in enumerate(row.events) if event.request_id == shared.request_id)
    assert broken(on_event(asker, **FAILED)(row)) == {"events share what was asked for them"}
