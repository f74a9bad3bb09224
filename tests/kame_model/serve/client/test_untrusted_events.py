"""What a server tells: taken only where it has what a caller goes by, and shown without harm."""

import json
from typing import Any

import pytest

from kame_model.serve.client.untrusted_events import read_event, remove_control_characters


def event(kind: str, time_s: Any = 0.5, **data: Any) -> bytes:
    return json.dumps({"kind": kind, "time_s": time_s, "data": data}).encode()


def test_an_event_is_taken_with_all_that_is_in_it() -> None:
    assert read_event(event("heard", text="how", is_final=False, by="a\x1b[2J")) == {
        "kind": "heard",
        "time_s": 0.5,
        "data": {"text": "how", "is_final": False, "by": "a[2J"},
    }
    assert read_event(event("of_later", 3, lists=[1]))["data"] == {"lists": [1]}
    for oracle in (1, "cascade-1"):
        assert read_event(event("oracle_asked", oracle=oracle, back_end="a"))["data"]["oracle"] == oracle


@pytest.mark.parametrize(
    "body",
    [
        b"{no json",
        b"\xff",
        b"[]",
        b'{"kind": "said", "time_s": 0}',
        event("heard", text="no is_final"),
        event("oracle", oracle=1, text="a", age_s="soon"),
        event("oracle", oracle=1, text="a", age_s=float("nan")),
        event("oracle_asked", 10**400, oracle=1, back_end="a"),
        event("oracle_asked", oracle=[1], back_end="a"),
        event("oracle_done", oracle=[]),
        event("oracle_failed", oracle=1, back_end="a"),
        event("dropped", float("inf"), direction="said", n_frames=1),
        event("started", mode="tandem"),
        event("ended"),
    ],
    ids=lambda body: body[:60].decode(errors="replace"),
)
def test_what_is_no_event_is_not_taken(body: bytes) -> None:
    with pytest.raises(ValueError):
        read_event(body)


def test_text_is_shown_without_harm() -> None:
    assert remove_control_characters("a\x1b]0;b\x07\x9b c\nd\te") == "a]0;b c\nd\te"
    assert remove_control_characters("be \ud83d kind 😊").encode() == "be \ufffd kind 😊".encode()
