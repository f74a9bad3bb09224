"""Rules for one row of an oracle shard: its events match the schedule and share the answers requested for them."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from data_schemas.config import OracleConfig
from data_schemas.records import OracleEvent, OracleRow, Turn, WordTiming
from pipelines.oracle.plan import find_answered_turns
from pipelines.oracle.schedule import TRUTH_LEVEL, Tick, list_words, make_ticks
from pipelines.oracle.share import is_in_share
from pipelines.quality.dialogue_rules import TIME_TOLERANCE_S
from pipelines.quality.measured_rules import BrokenRules


@dataclass(frozen=True, slots=True)
class AskedTurn:
    """What the oracles of a turn are checked against: the ends of its words, and the answer of the other `speaker`."""

    turn_index: int
    speaker: str
    ends_s: "array[float]"  # the words' texts are omitted: all turns of a source are held in memory
    truth: str

    def make_schedule(self, row: OracleRow) -> list[Tick]:
        """Returns the events that this turn should have, by the settings recorded in the row."""
        words = [WordTiming(word="", start_s=at_s, end_s=at_s, score=0.0, method="") for at_s in self.ends_s]
        return make_ticks(words, row.interval_s, row.level_bounds, row.max_requests_per_turn)


def find_asked_turns(turns: Sequence[Turn]) -> list[AskedTurn]:
    """Returns what the oracles of each turn are checked against, for all turns that the other speaker answers."""
    return [
        AskedTurn(turn.turn_index, answer.speaker, array("d", (word.end_s for word in list_words(turn))), answer.body)
        for turn, answer in find_answered_turns(turns, both_directions=True)
    ]


def check_oracles(row: OracleRow, answered: Sequence[AskedTurn]) -> BrokenRules:
    """Yields a (rule, finding) pair for each rule that a row breaks, given the answered turns of its dialogue."""
    asked = [turn for turn in answered if row.both_directions or turn.speaker == "A"]
    if not (row.model and row.prompt_digest and row.endpoint):
        yield "provenance is complete", "no model, endpoint or prompt digest"
    if (row.simulator == "random") != (row.model == row.endpoint == "random"):
        yield "only random answers are labelled as random", f"{row.simulator}, {row.model}, {row.endpoint}"
    foreign = "request_id" if row.simulator == "random" else "taken_from"
    if strange := [event.event_id for event in row.events if getattr(event, foreign) is not None]:
        yield "only random answers are labelled as random", f"{strange[0]} has a {foreign}"
    if not is_in_share(row.dialogue_id, row.seed, row.share_from, row.share_to):
        yield "oracles are of their version's share", f"not drawn for {row.share_from} to {row.share_to}"
    if [event.event_id for event in row.events] != [f"{row.dialogue_id}-e{n}" for n in range(len(row.events))]:
        yield "events are numbered in order", "ids differ"
    if strays := {event.turn_index for event in row.events} - {turn.turn_index for turn in asked}:
        yield "events belong to a turn that is answered", f"turns {', '.join(map(str, sorted(strays)))}"
    for event in row.events:
        is_failed = event.status == "failed"
        if (event.text is None) != is_failed:
            yield "only failed events have no text", f"{event.event_id}: {event.status}"
        if (event.error is not None) != is_failed:
            yield "only failed events have an error", f"{event.event_id}: {event.status}, error: {event.error}"
    try:
        read_settings(row)
    except ValidationError as error:
        yield "the schedule's settings are valid", "; ".join(f"{each['loc']}: {each['msg']}" for each in error.errors())
        return
    for turn in asked:
        if turn.ends_s:  # without words, the rules of the dialogue have reported it
            yield from _check_events_of_turn(row, turn)


def read_settings(row: OracleRow) -> OracleConfig:
    """Returns the settings recorded in a row as a configuration; settings that do not determine requests are defaults.

    Raises:
        ValidationError: the settings are invalid.
    """
    return OracleConfig(
        interval_s=row.interval_s,
        level_bounds=list(row.level_bounds),
        max_requests_per_turn=row.max_requests_per_turn,
        both_directions=row.both_directions,
        max_tokens=row.max_tokens,
        temperature=row.temperature,
        max_asks=row.max_asks,
        share_from=row.share_from,
        share_to=row.share_to,
    )


def _check_events_of_turn(row: OracleRow, turn: AskedTurn) -> BrokenRules:
    """Checks that a turn's events are those of its schedule, of the right speaker, and share answers as scheduled."""
    events = [event for event in row.events if event.turn_index == turn.turn_index]
    schedule = turn.make_schedule(row)
    if found := _find_off_schedule(events, schedule):
        yield "events are those of the schedule", f"turn {turn.turn_index}: {found}"
    if len(events) != len(schedule):
        return  # events cannot be matched with ticks
    if wrong := {event.speaker for event in events} - {turn.speaker}:
        yield "events predict the other speaker's words", f"turn {turn.turn_index}: {', '.join(sorted(wrong))}"
    if events[-1].text != turn.truth and events[-1].level == TRUTH_LEVEL:
        yield "the last event is the true answer at the last word's end", f"turn {turn.turn_index}"
    for index, (event, tick) in enumerate(zip(events, schedule, strict=True)):
        asker = None if tick.asks in (None, index) else events[tick.asks]
        if wrong_share := _check_shared(event, tick, asker):
            yield "events share what was asked for them", f"{event.event_id}: {wrong_share}"


def _find_off_schedule(events: Sequence[OracleEvent], schedule: Sequence[Tick]) -> str:
    """Returns a description of the first event that is not as scheduled, or of a wrong number of events; else empty."""
    for event, tick in zip(events, schedule, strict=False):
        is_there = abs(event.t_s - tick.t_s) <= TIME_TOLERANCE_S and abs(event.r - tick.r) <= 1e-9
        counted = (event.n_words_heard, event.n_words, event.level)
        if not is_there or counted != (tick.n_words_heard, tick.n_words, tick.level):
            return f"{event.event_id} is {_format_moment(event)}, not {_format_moment(tick)}"
    return "" if len(events) == len(schedule) else f"{len(events)} events, not {len(schedule)}"


def _format_moment(at: OracleEvent | Tick) -> str:
    """Returns time, words heard, r and level of an event or tick as text."""
    return f"at {at.t_s} s, {at.n_words_heard}/{at.n_words} words, r {at.r:.3f}, level {at.level}"


def _check_shared(event: OracleEvent, tick: Tick, asker: OracleEvent | None) -> str:
    """Returns why an event does not match the request that its tick has or shares; empty if it does.

    `asker` is the other event whose request this one shares; None if it has its own or none. A random text has the
    dialogue that it was taken from in place of a request.
    """
    if tick.asks is None:
        is_truth = (event.status, event.raw_text, event.request_id, event.attempt) == ("truth", None, None, None)
        return "" if is_truth else f"{event.status}, request {event.request_id}, where nobody is asked"
    if asker is None:
        has_origin = (event.request_id is None) == (event.attempt is None) and (event.request_id or event.taken_from)
        is_asked = event.status == "failed" or (event.status == "answered" and has_origin)
        return "" if is_asked else f"{event.status}, request {event.request_id}, where one is asked"
    if event.status != ("failed" if asker.status == "failed" else "shared"):
        return f"{event.status}, where {asker.event_id} was {asker.status} for it"
    same = ("request_id", "attempt", "answered_by", "system_fingerprint", "taken_from", "text", "raw_text", "error")
    differ = [name for name in same if getattr(event, name) != getattr(asker, name)]
    return f"{', '.join(differ)} not those of {asker.event_id}" if differ else ""
