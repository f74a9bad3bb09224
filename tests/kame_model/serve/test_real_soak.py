"""What the benchmarks of real parts call broken, on counts made up: each check can fail, and says whom it is about."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

from backends.listener.double import DoubleListener, DoubleListenerOptions
from data_schemas.units import FRAME_S
from tests.support.arrivals import Arrived, RealtimeSide, longest_wait_s, n_gaps, n_missing
from tests.support.recogniser_process import converse
from tests.support.soak_verdict import SENTENCES, WAYS, Held, Outage, Talk, broken_promises, grown
from tests.support.swap_report import SwapReport, report_of

OUTAGES = [Outage(104.0, 112.0), Outage(204.0, 212.0)]


def good_talks() -> list[Talk]:
    """Two rounds and an end in which nothing went wrong, the recogniser killed in each."""
    talks = []
    for number in range(18):
        began_s = 100.0 * (1 + number // 6) + 12.5 * (number % 6)
        talk = Talk(number % len(SENTENCES), *WAYS[number % len(WAYS)], began_s, began_s + 12)
        talk.n_sent, talk.n_answered = 150, 149
        talk.texts = {"heard": SENTENCES[talk.sentence].text, "oracle": "I think it is big.", "said": " Well, yes."}
        talk.n_events = Counter(heard=5, oracle=2, listening_failed=2 * (number % 6 == 0))
        talks.append(talk)
    return talks


def broken_by(change: Callable[[Talk], None], which: slice = slice(None)) -> list[str]:
    talks = good_talks()
    for talk in talks[which]:
        change(talk)
    return broken_promises(talks, OUTAGES)


def setting(**values: Any) -> Callable[[Talk], None]:
    def change(talk: Talk) -> None:
        for name, value in values.items():
            setattr(talk, name, value)

    return change


def telling(kind: str, text: str) -> Callable[[Talk], None]:
    return lambda talk: talk.texts.update({kind: text})


def test_nothing_is_broken_where_nothing_went_wrong() -> None:
    assert broken_promises(good_talks(), OUTAGES) == []
    assert len(broken_promises([], OUTAGES)) > len(WAYS), "where nobody talked nothing is shown"


@pytest.mark.parametrize(
    ("change", "which", "told"),
    [
        (setting(n_answered=0), slice(None), "frames were not answered: more than 1%"),
        (setting(n_answered=0), slice(3, 4), "frames were not answered"),
        (setting(n_answered=130), slice(3, 4), "18 not answered, 0 dropped"),
        (setting(n_dropped=Counter(heard=2)), slice(None), "frames were dropped: more than 1%"),
        (setting(n_dropped=Counter(said=16)), slice(3, 4), "16 dropped"),
        (setting(n_gaps=2), slice(None), "came so late that a player ran dry: more than 1%"),
        (setting(n_gaps=16), slice(3, 4), "16 gaps"),
        (setting(n_sent=0, n_answered=0), slice(3, 4), "said nothing"),
        (setting(ended="an error inside the server"), slice(3, 4), "was let go: an error inside the server"),
        (telling("heard", "How tall is a giraffe?"), slice(1, 2), "['giraffe'] (heard)"),
        (telling("oracle", "The giraffe's neck is long."), slice(1, 2), "(oracle)"),
        (telling("said", " Two giraffes."), slice(1, 2), "['giraffes'] (said)"),
        (telling("heard", " "), slice(None), "no word was heard of"),
        (setting(n_events=Counter(heard=5, oracle=2)), slice(0, 1), "was not told that the recogniser had gone"),
        (setting(n_events=Counter(heard=5, listening_failed=1)), slice(None), "no oracle came"),
        (setting(path="/api/chat"), slice(None), "nobody talked over /v1/realtime"),
        (setting(mode="direct"), slice(None), "nobody talked over /api/chat in mode cascade"),
        (setting(mode="direct"), slice(5, None, 6), "nobody talked over /v1/realtime in mode cascade"),
        (setting(began_s=500.0, ended_s=512.0), slice(None), "nobody talked when the recogniser went away"),
        (setting(began_s=100.0, ended_s=112.0), slice(None), "nobody talked after the recogniser had come back"),
    ],
)
def test_each_promise_can_be_broken(change: Callable[[Talk], None], which: slice, told: str) -> None:
    assert any(told in each for each in broken_by(change, which)), broken_by(change, which)


@pytest.mark.parametrize("last", [Held(19, 9, 500.0), Held(16, 12, 500.0), Held(16, 9, 765.0)])
def test_what_a_server_keeps_is_found(last: Held) -> None:
    loaded = Held(16, 9, 500.0)
    assert grown([Held(8, 4, 100.0), loaded, replace(loaded, memory_mib=660.0)]) == []
    assert len(grown([Held(8, 4, 100.0), loaded, last])) == 1


def test_memory_that_grows_in_each_round_is_told_from_that_of_one_long_sentence() -> None:
    def over(*memory_mib: float) -> list[str]:
        return grown([Held(8, 4, 100.0), *(Held(16, 9, each) for each in memory_mib)])

    assert over(500, 501, 592, 593, 594, 595, 596) == []
    assert over(500, 504, 508, 512, 516, 520, 524) == ["MiB: 4.0 more in each round"]


def came(*numbers: int, late_s: float = 0.0, of: int = -1) -> list[Arrived]:
    return [Arrived(number, number * FRAME_S + late_s * (number == of)) for number in numbers]


def test_frames_that_are_missing_or_late_are_counted() -> None:
    assert n_missing(came(3, 4, 5)) == n_gaps(came(3, 4, 5)) == 0
    assert n_missing(came(3, 5, 8)) == 3
    assert n_missing(came(3, 3)) == 1
    assert n_gaps(came(3, 4, 5, late_s=0.07, of=4)) == 0
    assert n_gaps(came(3, 4, 5, late_s=0.09, of=4)) == 1
    assert longest_wait_s(came(3, 4, 5, late_s=0.09, of=4)) == pytest.approx(FRAME_S + 0.09)


def test_only_what_is_missing_in_a_response_is_the_server_s() -> None:
    side = RealtimeSide()
    for number in (1, 2, 5, 6, 8):
        if number in (1, 5):
            side.take({"type": "response.created"}, 0.0)
        side.take({"type": "response.output_audio.delta", "kame_frame": number}, number * FRAME_S)
    assert (side.n_missing_in_responses, side.n_unasked) == (1, 3)


ASKED = [("pirate", 2.0), ("plain", 17.0)]


def swapped_side(*, without: str = "", numbers: tuple[int, ...] = tuple(range(375))) -> RealtimeSide:
    """What a client is sent in two swaps that went well, without events of one kind."""
    side = RealtimeSide()
    side.take({"type": "response.created"}, 0.0)
    for number in numbers:
        message = {"type": "response.output_audio.delta", "kame_frame": number}
        side.take(message, number * FRAME_S)
    told = [(0.0, "started", {}), (1.0, "oracle_asked", {"oracle": 1, "back_end": "plain"})]
    for oracle, (back_end, at_s) in enumerate(ASKED, 2):
        told.append((at_s + 0.1, "changed", {"back_end": back_end}))
        told.append((at_s + 0.2, "oracle", {"oracle": 1, "text": "of before"}))
        told.append((at_s + 0.3, "oracle_asked", {"oracle": oracle, "back_end": back_end}))
        told.append((at_s + 0.9, "oracle", {"oracle": oracle, "text": "aye"}))
    for at_s, kind, data in told:
        if kind != without:
            side.take({"type": "kame.event", "event": {"kind": kind, "data": data}}, at_s)
    return side


def test_swaps_that_went_well_break_nothing() -> None:
    report = report_of(swapped_side(), ASKED, 375)
    assert report.broken == []
    assert [each.oracle_s for each in report.swaps] == pytest.approx([2.9, 17.9])


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (report_of(swapped_side(numbers=(*range(200), *range(201, 375))), ASKED, 375), "1 are missing"),
        (report_of(swapped_side(numbers=tuple(range(300))), ASKED, 375), "300 of 375 frames were answered"),
        (report_of(swapped_side(numbers=()), ASKED, 0), "0 of 0 frames were answered"),
        (report_of(swapped_side(without="changed"), ASKED, 375), "swap 1 to 'pirate' was not confirmed"),
        (report_of(swapped_side(without="oracle"), ASKED, 375), "no oracle of it came"),
        (report_of(swapped_side(), ASKED[:1], 375), "was not swapped there and back"),
        (report_of(swapped_side(), [("plain", 0.0), ("pirate", 2.0)], 375), "swap 1 to 'plain' was not confirmed"),
        (replace(report_of(swapped_side(), ASKED, 375), longest_wait_s=0.6), "0.60 s after the one before"),
        (replace(report_of(swapped_side(), ASKED, 375), n_gaps=4), "ran dry 4 times"),
        (replace(report_of(swapped_side(), ASKED, 375), n_dropped=1), "1 frames were dropped"),
        (replace(report_of(swapped_side(), ASKED, 375), ended="no more"), "ended the session: no more"),
    ],
)
def test_a_swap_that_went_wrong_is_told(report: SwapReport, told: str) -> None:
    assert any(told in each for each in report.broken), report.broken


def test_requests_that_go_to_the_old_back_end_are_told() -> None:
    side = swapped_side()
    asked = {"kind": "oracle_asked", "data": {"oracle": 9, "back_end": "pirate"}}
    side.take({"type": "kame.event", "event": asked}, 20.0)
    assert any("swap 2 to 'plain': 1 requests went elsewhere" in each for each in report_of(side, ASKED, 375).broken)


async def test_a_recogniser_behind_a_socket_tells_what_it_hears() -> None:
    recogniser = DoubleListener(DoubleListenerOptions())
    async with serve(lambda connection: converse(recogniser, connection), "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with connect(f"ws://127.0.0.1:{port}") as socket:
            await socket.send(json.dumps({"type": "start", "sample_rate_hz": 24_000}))
            await socket.send((0.3 * 32767 * np.ones(24_000)).astype("<i2").tobytes())
            await socket.send(json.dumps({"type": "end_turn"}))
            async with asyncio.timeout(20):
                while not (heard := json.loads(await socket.recv()))["is_final"]:
                    assert heard["type"] == "heard"
    assert heard["text"]
