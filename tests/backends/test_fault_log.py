"""What the log has of servers that fail: where, what and what to do, now and then, and never a secret."""

import asyncio
import logging

import pytest

from backends.fault_log import FaultLog, extract_host, name_fault
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
    assert extract_host(url) == place


def test_a_fault_is_told_by_its_status_or_its_class_and_never_by_its_text() -> None:
    assert name_fault(BackendError("You said 'hello'.", status="401")) == "HTTP 401"
    assert name_fault(RequestError("You said 'hello'.", status="cut off")) == "cut off"
    assert name_fault(BackendError("You said 'hello'.")) == "BackendError"
    assert name_fault(ValueError("You said 'hello'.")) == "ValueError"


@pytest.mark.looptime
async def test_each_fault_of_each_back_end_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    faults = FaultLog(LOG)
    for _ in range(100):
        faults.report("Back-end a", "here:1", "HTTP 503", "See that it runs.")
        faults.report("Back-end a", "here:1", "timeout")
        faults.report("Back-end b", "", "HTTP 503")
        await asyncio.sleep(1)
    assert caplog.messages == [
        "Back-end a at here:1 failed: HTTP 503. See that it runs.",
        "Back-end a at here:1 failed: timeout.",
        "Back-end b failed: HTTP 503.",
        "Back-end a at here:1 failed: HTTP 503. See that it runs. This happened 59 more times since the last message.",
        "Back-end a at here:1 failed: timeout. This happened 59 more times since the last message.",
        "Back-end b failed: HTTP 503. This happened 59 more times since the last message.",
    ]
