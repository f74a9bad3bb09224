"""What the processes of one server count together."""

import sqlite3
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from data_schemas.config.serving import CareConfig, LimitsConfig
from kame_model.serve.device.admission import Admission, Refused
from kame_model.serve.device.frame_meter import FrameMeter
from kame_model.serve.processes.shared_counts import COUNTS, SharedCounts
from kame_model.serve.web.access import WRONG_AT_ONCE, WRONG_EVERY_S, AccessControl, Denied

LIMITS = LimitsConfig(max_sessions_per_address=3, max_starts_per_minute=4)


Pair = tuple[SharedCounts, SharedCounts]
"""The counts of one server, as two of its processes have them."""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    counts = SharedCounts(tmp_path / COUNTS, 101), SharedCounts(tmp_path / COUNTS, 102)
    yield counts
    for each in counts:
        each.close()


def enter(admission: Admission, address: str, present: list[str], now_s: float = 0.0) -> str:
    """Lets a caller in; the reason where not."""
    try:
        admission.admit(address, present, 9, 1, now_s)
    except Refused as refusal:
        return refusal.reason
    present.append(address)
    return ""


def show(control: AccessControl, token: str, address: str = "192.0.2.1") -> int:
    """The status of a connection with this token."""
    headers = [(b"authorization", f"Bearer {token}".encode())]
    scope = {"type": "http", "headers": headers, "client": (address, 1), "query_string": b"", "path": "/"}
    try:
        control.check(HTTPConnection(scope))
    except Denied as denied:
        return denied.status
    return 200


def test_sessions_of_an_address_are_counted_over_all_processes(pair: Pair) -> None:
    one, other = (Admission(LIMITS, FrameMeter(), counts) for counts in pair)
    here: list[str] = []
    there: list[str] = []
    assert [enter(one, "a", here), enter(other, "a", there), enter(one, "a", here)] == ["", "", ""]
    assert enter(other, "a", there) == "too_many_sessions"
    asked = other.find_refusal("a", there, 9, 1, 0.0)
    assert asked is not None
    assert asked.reason == "too_many_sessions"
    assert enter(other, "b", there) == ""
    one.leave("a")
    here.remove("a")
    assert enter(other, "a", there) == ""
    assert [enter(one, "c", here) for _ in range(3)] == ["", "", ""]
    assert enter(other, "c", there) == "too_many_sessions"
    assert pair[1].forget_process(101) == 4, "those of a process that has died count no more"
    assert enter(other, "c", there) == ""


def test_starts_of_an_address_are_counted_over_all_processes_for_a_minute(pair: Pair) -> None:
    one, other = (Admission(LIMITS, FrameMeter(), counts) for counts in pair)
    for second, admission in enumerate((one, other, one, other)):
        present: list[str] = []
        assert enter(admission, "a", present, second) == ""
        admission.leave("a")
    assert enter(one, "a", [], 10.0) == "too_many_starts"
    assert enter(one, "a", [], 61.5) == ""


def test_of_two_processes_that_let_an_address_in_at_once_no_more_come_in_than_may(tmp_path: Path) -> None:
    """Each thread is a process here: it has a connection of its own to the file."""
    entered: list[str] = []

    def come(process: int) -> None:
        counts = SharedCounts(tmp_path / COUNTS, process)
        admission = Admission(LimitsConfig(max_sessions_per_address=4), FrameMeter(), counts)
        present: list[str] = []
        entered.extend(enter(admission, "a", present) for _ in range(10))
        counts.close()

    SharedCounts(tmp_path / COUNTS, 1).close()
    threads = [threading.Thread(target=come, args=(process,)) for process in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (entered.count(""), entered.count("too_many_sessions")) == (4, 36)


def test_wrong_tokens_are_counted_over_all_processes(pair: Pair) -> None:
    now_s = [0.0]
    controls = [
        AccessControl(CareConfig(), {"KAME_SERVE_TOKEN": "right"}, clock_s=lambda: now_s[0], counts=counts)
        for counts in pair
    ]

    shown = [show(controls[number % 2], f"wrong-{number}") for number in range(WRONG_AT_ONCE)]
    assert shown == [401] * WRONG_AT_ONCE
    assert [show(each, "right") for each in controls] == [429, 429]
    assert show(controls[0], "right", "192.0.2.2") == 200
    now_s[0] += WRONG_EVERY_S + 0.1
    assert show(controls[1], "right") == 200


def test_wrong_tokens_are_counted_by_each_process_until_the_shared_counts_are_back(
    tmp_path: Path, pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    environment = {"KAME_SERVE_TOKEN": "right"}
    one, other = (AccessControl(CareConfig(), environment, clock_s=lambda: 0.0, counts=counts) for counts in pair)
    with sqlite3.connect(tmp_path / COUNTS, isolation_level=None) as spoiler:
        spoiler.execute("ALTER TABLE allowances RENAME TO gone")
        assert [show(one, f"wrong-{number}") for number in range(WRONG_AT_ONCE)] == [401] * WRONG_AT_ONCE
        assert [show(one, "right"), show(other, "right")] == [429, 200]
        assert "no such table: allowances" in caplog.text
        spoiler.execute("ALTER TABLE gone RENAME TO allowances")
    assert [show(one, f"wrong-{number}") for number in range(WRONG_AT_ONCE)] == [401] * WRONG_AT_ONCE
    assert show(other, "right") == 429


class _FailingOnce(sqlite3.Connection):
    """A connection whose first COMMIT fails, as on a full disk: its transaction stays open."""

    has_failed = False

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Executes a statement."""
        if sql == "COMMIT" and not self.has_failed:
            self.has_failed = True
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(sql, parameters)


def test_a_decision_that_cannot_be_recorded_does_not_lock_the_other_processes_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=_FailingOnce))
        one = SharedCounts(tmp_path / COUNTS, 101)
    other = SharedCounts(tmp_path / COUNTS, 102)
    assert one.make_allowance("calls", 1.0, 2.0, lambda: 0.0).take("a")
    assert "disk I/O error" in caplog.text
    caplog.clear()
    allowances = [counts.make_allowance("calls", 1.0, 2.0, lambda: 0.0) for counts in (other, one, other)]
    assert [each.take("a") for each in allowances] == [True, True, False]
    assert caplog.text == ""
    one.close()
    other.close()


def test_states_and_deaths_are_kept_by_number(pair: Pair) -> None:
    pair[0].record_state(0, "loading")
    pair[0].record_state(0, "serving")
    pair[0].record_state(1, "dead")
    pair[0].record_state(1, "dead")
    pair[0].record_state(1, "loading")
    assert pair[1].read_states() == {0: ("serving", 0), 1: ("loading", 2)}


def test_a_process_that_cannot_count_goes_by_what_it_knows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    counts = SharedCounts(tmp_path / COUNTS, 1)
    with sqlite3.connect(tmp_path / COUNTS, isolation_level=None) as spoiler:
        spoiler.execute("DROP TABLE sessions")
    admission = Admission(LIMITS, FrameMeter(), counts)
    present: list[str] = []
    assert [enter(admission, "a", present) for _ in range(4)] == ["", "", "", "too_many_sessions"]
    assert "each uses its own" in caplog.text
    counts.close()
