"""What the log has of servers that fail: where, what and what to do, now and then, and never a secret."""

import asyncio
import logging

import pytest

from backends.fault_log import FaultLog, name_fault, place_of
from data_schemas.errors import BackendError, RequestError

LOG = logging.getLogger("tests.faults")


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://me:pass-word@llm.example.org:8443/v1/sk-path?key=sk-query#sk", "llm.example.org:8443"),
        ("http://10.0.0.5:8000/v1", "10.0.0.5:8000"),
        ("ws://[::1]:9000/?key=sk", "[::1]:9000"),
        ("http://host:no-port/v1", "host:no-port"),
        ("", ""),
    ],
)
def test_of_a_url_only_host_and_port_are_told(url: str, place: str) -> None:
    assert place_of(url) == place


def test_a_fault_is_told_by_its_status_or_its_class_and_never_by_its_text() -> None:
    assert name_fault(BackendError("You said 'hello'.", status="401")) == "HTTP 401"
    assert name_fault(RequestError("You said 'hello'.", status="cut off")) == "cut off"
    assert name_fault(BackendError("You said 'hello'.")) == "BackendError"
    assert name_fault(ValueError("You said 'hello'.")) == "ValueError"


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_each_fault_of_each_back_end_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    faults = FaultLog(LOG)
    for _ in range(100):
        faults.tell("Back-end a", "here:1", "HTTP 503", "See that it runs.")
        faults.tell("Back-end a", "here:1", "timeout")
        faults.tell("Back-end b", "", "HTTP 503")
        await asyncio.sleep(1)
    assert caplog.messages == [
        "Back-end a at here:1 failed: HTTP 503. See that it runs.",
        "Back-end a at here:1 failed: timeout.",
        "Back-end b failed: HTTP 503.",
        "Back-end a at here:1 failed: HTTP 503. See that it runs. So it was 59 times more since this was last told.",
        "Back-end a at here:1 failed: timeout. So it was 59 times more since this was last told.",
        "Back-end b failed: HTTP 503. So it was 59 times more since this was last told.",
    ]
