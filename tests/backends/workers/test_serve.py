"""Whose fault a failure is: an engine that still does something easy afterwards was given what it cannot do."""

from typing import Any

import pytest

from backends.workers.frames import EngineRefusal, Frame
from backends.workers.serve import answer


class Fragile:
    """Fails on long texts; once it has failed on the device, on whatever it is given."""

    is_broken = False

    def describe(self, arguments: dict[str, Any], sound: bytes) -> tuple[dict[str, Any], bytes]:
        raise KeyError("no such model")

    def say(self, arguments: dict[str, Any], sound: bytes) -> tuple[dict[str, Any], bytes]:
        if self.is_broken:
            raise RuntimeError("broken")
        if len(arguments["text"]) > 400:
            raise ValueError("400 tokens at most")
        return {}, sound

    def break_for_good(self, arguments: dict[str, Any], sound: bytes) -> tuple[dict[str, Any], bytes]:
        self.is_broken = True
        raise RuntimeError("device-side assert")

    def run_out(self, arguments: dict[str, Any], sound: bytes) -> tuple[dict[str, Any], bytes]:
        raise MemoryError("no room")


class Probed(Fragile):
    def probe(self) -> None:
        self.say({"text": "Yes."}, b"")


class Choosy(Fragile):
    def probe(self) -> None:
        raise EngineRefusal("not even that, but in good order")


def asked(engine: Fragile, call: str, text: str = "") -> dict[str, Any]:
    return answer(type(engine), engine, Frame({"call": call, "arguments": {"text": text}}))[1].header


@pytest.mark.parametrize("engine", [Probed(), Choosy()])
def test_what_an_engine_fails_on_alone_is_refused(engine: Fragile) -> None:
    assert asked(engine, "say", "a" * 401) == {"refused": "ValueError: 400 tokens at most"}
    assert asked(engine, "say", "a") == {"done": {}}


@pytest.mark.parametrize("call", ["break_for_good", "run_out", "describe", "no_such_call"])
def test_a_broken_engine_or_machine_is_no_fault_of_the_request(call: str) -> None:
    assert asked(Probed(), call).keys() == {"failed"}


def test_an_engine_without_a_probe_is_not_trusted_after_a_failure() -> None:
    assert asked(Fragile(), "say", "a" * 401) == {"failed": "ValueError: 400 tokens at most"}
