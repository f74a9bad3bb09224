"""The benchmark's soak: nothing is left of good callers and bad ones; of a server that keeps something it says so."""

import asyncio
from typing import Any

import pytest

from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.session import answering
from kame_model.serve.session.conversation import Conversation
from kame_model.serve.session.mailbox import SaidFrame
from kame_model.serve.session.session import Session
from kame_model.serve.web.moshi_websocket import MoshiSocket
from kame_model.serve.web.realtime_websocket import RealtimeSocket
from tests.support.serve_doubles import Fault, pitch_in, tone
from tests.support.soak import FAULTS, SoakReport, soak

pytestmark = pytest.mark.slow

N_CALLERS = 24


def short_soak(checkpoint: Checkpoint, n_callers: int) -> SoakReport:
    return soak(checkpoint, n_callers, n_at_once=n_callers, n_first=0)


def changing_soak(checkpoint: Checkpoint) -> SoakReport:
    """Callers of both sockets who change their minds."""
    return soak(checkpoint, 6, n_at_once=3, n_first=0, faults=("changes",))


def test_nothing_is_left_and_nobody_is_late(checkpoint: Checkpoint) -> None:
    told: list[Fault] = []
    report = soak(checkpoint, N_CALLERS, on_caller=lambda caller: told.append(caller.fault))
    assert report.broken == []
    assert set(told) == set(FAULTS)
    assert len(told) == N_CALLERS + len(FAULTS)
    assert report.n_oracles > N_CALLERS
    assert report.n_fed > 10 * N_CALLERS
    assert {"heard", "said"} <= set(report.n_dropped)


def test_a_session_that_is_kept_is_found(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Session] = []
    fail = Session.fail

    def keeping(session: Session, reason: str) -> None:
        kept.append(session)
        fail(session, reason)

    monkeypatch.setattr(Session, "fail", keeping)
    assert any(each.startswith("n_sessions") for each in short_soak(checkpoint, 1).broken)


def test_words_that_reach_another_are_found(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[Conversation] = []

    def one_for_all(*given: Any) -> Conversation:
        shared[:] = shared or [Conversation(*given)]
        return shared[0]

    monkeypatch.setattr(answering, "Conversation", one_for_all)
    broken = short_soak(checkpoint, 3).broken
    assert any("requests with several callers' words" in each for each in broken)
    assert any("was told" in each for each in broken), broken


@pytest.mark.parametrize(("socket", "path"), [(MoshiSocket, "/api/chat"), (RealtimeSocket, "/v1/realtime")])
@pytest.mark.parametrize(("fault", "told"), [("late", "ms late"), ("lost", "frames were not answered")])
def test_frames_of_either_socket_are_judged_after_a_reset_too(
    checkpoint: Checkpoint,
    socket: type[MoshiSocket | RealtimeSocket],
    path: str,
    fault: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_frame = socket._on_frame

    async def faulty(self: Any, frame: SaidFrame) -> None:
        if fault == "late":
            await asyncio.sleep(0.3)
        if fault == "late" or frame.number % 10:
            await on_frame(self, frame)

    monkeypatch.setattr(socket, "_on_frame", faulty)
    broken = changing_soak(checkpoint).broken
    assert any(f"(changes, {path})" in each and told in each for each in broken), broken
    assert all(path in each for each in broken if told in each)


@pytest.mark.parametrize("number", [0, 7, 150, 199])
def test_a_voice_is_told_by_its_pitch(number: int) -> None:
    assert pitch_in(tone(number, 3)) == number
    assert pitch_in(0 * tone(number, 3)) is None
