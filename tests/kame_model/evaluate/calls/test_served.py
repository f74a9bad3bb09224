"""The run of any evaluation that calls a server: what is missing is called, what is not judged is judged."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from backends.asr.double import DoubleRecogniser
from data_schemas.config.calls import CallsConfig
from data_schemas.config.serving import NO_CHECKPOINT
from kame_model.evaluate.calls.call import Call, CalledServer
from kame_model.evaluate.calls.report import format_costs_table, list_faults
from kame_model.evaluate.calls.run import (
    CALLS,
    CallCondition,
    Counting,
    FinishedRun,
    Item,
    describe_run,
    list_conditions,
    run_calls,
    show_no_progress,
)
from kame_model.evaluate.judge import Judgement, JudgeRequest, make_verdict_request
from kame_model.evaluate.report.folder import ITEMS, find_unequal, read_items
from tests.support.chat_server import MODEL, Behaviour, served
from tests.support.counting_chat import CountingChat, parts_with
from tests.support.serving import saying, serve_config

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("nothing_is_probed")]

RUN = {"kind": "test", "version": 1}
NAMES = ("q1", "q2", "q3")


class Caller:
    """Calls in mode cascade, and keeps which it made."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def call(self, server: CalledServer, condition: CallCondition, name: str) -> tuple[dict[str, Any], Call]:
        self.made.append(name)
        call = server.call([saying("alpha", 4)], mode=condition.mode, seed=0, tail_s=3, delay_s=0.2)
        return {"row": condition._asdict(), "unit": name, "measures": {}, "text": call.text}, call

    def run(
        self,
        out: Path,
        names: Sequence[str] = NAMES,
        counting: Counting = show_no_progress,
        judge: dict[str, Any] | None = None,
        sounds: Sequence[str] | None = None,
    ) -> FinishedRun:
        settings = {"serving": serve_config(checkpoint=NO_CHECKPOINT), "modes": ["cascade"], "n_sounds": 1}
        config = CallsConfig.model_validate({**settings, "judge": judge})
        asked, parts = dict(zip(names, names, strict=True)), parts_with(CountingChat("Nine ", "eggs."))
        return run_calls(
            config, str(out), RUN, asked, self.call, make_items, parts=parts, counting=counting, sounds=sounds
        )


def make_items(condition: CallCondition, name: str, called: dict[str, Any]) -> list[Item]:
    """One whose text is judged, and whose silence is none."""
    judged: dict[str, JudgeRequest | Judgement] = {
        "right": make_verdict_request("How many?", "nine", f"{called['text']} ({name})"),
        "silent": Judgement(False),
    }
    return [Item(called, judged)]


def judge_at(root: str, endpoint: str = "judge") -> dict[str, Any]:
    chat = {"engine": "openai", "base_url": f"{root}/v1", "model": MODEL, "endpoint": endpoint, "max_attempts": 1}
    return {"chat": chat}


def test_each_mode_has_each_delay_but_direct_which_has_none() -> None:
    settings = {"serving": serve_config(), "modes": ["direct", "tandem", "tandem"], "delays_s": [0.5, 2]}
    conditions = list_conditions(CallsConfig.model_validate(settings))
    assert [each.name for each in conditions] == ["direct", "tandem-0.5s", "tandem-2s"]


def test_another_model_file_at_the_same_path_is_another_system(tmp_path: Path) -> None:
    gguf = tmp_path / "model.gguf"

    def describe(content: bytes) -> Any:
        gguf.write_bytes(content)
        back_ends = [{"chat": {"engine": "llamacpp", "model": str(gguf)}}]
        serving = serve_config(checkpoint=NO_CHECKPOINT, back_ends=back_ends)
        config = CallsConfig.model_validate({"serving": serving, "modes": ["cascade"]})
        return describe_run("test", 1, config, DoubleRecogniser())["system"]

    one, other = describe(b"one"), describe(b"another")
    assert one["model_digests"].keys() == {"default"}
    assert find_unequal(one, other) == ["model_digests.default"]


def test_the_unknown_digest_of_a_model_behind_a_url_is_no_part_of_the_system() -> None:
    chat = {"engine": "openai", "base_url": "http://127.0.0.1:9/v1", "model": MODEL, "extra": {"top_k": 1}}
    serving = serve_config(checkpoint=NO_CHECKPOINT, back_ends=[{"chat": chat}])
    config = CallsConfig.model_validate({"serving": serving, "modes": ["cascade"]})
    assert describe_run("test", 1, config, DoubleRecogniser())["system"]["model_digests"] == {}


def test_a_run_that_is_stopped_goes_on_behind_what_is_kept(tmp_path: Path) -> None:
    @contextmanager
    def stopping(what: str, total: int) -> Iterator[Callable[[int], None]]:
        assert (what, total) == ("calling", 3)
        left = [2]

        def advance(n: int) -> None:
            left[0] -= n
            if not left[0]:
                raise KeyboardInterrupt

        yield advance

    caller = Caller()
    with pytest.raises(KeyboardInterrupt):
        caller.run(tmp_path, counting=stopping)
    assert len(list(read_items(str(tmp_path / CALLS)))) == 2
    done = caller.run(tmp_path)
    assert caller.made == list(NAMES)
    assert [(each["unit"], each["text"], each["measures"]) for each in done.records] == [
        (name, "Nine eggs.", {}) for name in NAMES
    ]
    content = (tmp_path / ITEMS).read_bytes()
    assert caller.run(tmp_path).records == done.records
    assert (caller.made, (tmp_path / ITEMS).read_bytes()) == (list(NAMES), content)


def test_the_first_calls_are_kept_as_sound_or_those_that_are_named(tmp_path: Path) -> None:
    Caller().run(tmp_path / "first")
    Caller().run(tmp_path / "named", sounds=["q2", "q3"])
    kept = {folder: {each.name for each in (tmp_path / folder / "sound").iterdir()} for folder in ("first", "named")}
    assert kept == {"first": {"cascade-q1.wav"}, "named": {"cascade-q2.wav", "cascade-q3.wav"}}


def test_another_judge_judges_the_same_calls_and_costs_are_of_its_own(tmp_path: Path) -> None:
    caller = Caller()
    assert caller.run(tmp_path).costs["judge"] is None
    for endpoint, verdict in (("mild", "correct"), ("stern", "incorrect")):
        with served(Behaviour(ending=f"\n[[{verdict}]]")) as (root, server):
            done = caller.run(tmp_path, judge=judge_at(root, endpoint))
            assert len(server.counts.bodies) == 3
        told = {"right": verdict == "correct", "silent": False}
        assert [each["measures"] for each in done.records] == [told] * 3
        assert [list(each["judged"]) for each in done.records] == [["right"]] * 3
        assert done.costs["judge"]["n_requests"] == 3
    assert caller.made == list(NAMES)


def test_a_judgement_that_failed_is_asked_for_again_and_no_other(tmp_path: Path) -> None:
    caller = Caller()
    with served(Behaviour(fault_share=1.0, faults=("malformed",))) as (root, _):
        failed = caller.run(tmp_path, NAMES[:2], judge=judge_at(root))
    assert [each["measures"]["right"] for each in failed.records] == [None, None]
    assert list(list_faults(failed.records, {"right": "heard"})) == ["- cascade, heard: 2 of 2 not rated: 2 failed"]
    for _ in range(2):
        with served(Behaviour(ending="no mark")) as (root, server):
            told = caller.run(tmp_path, NAMES[:2], judge=judge_at(root))
            n_judged = len(server.counts.bodies)
    assert n_judged == 0
    assert [each["faults"] for each in told.records] == [{"right": "missing"}] * 2
    assert len(list(read_items(str(tmp_path)))) == 2


def test_a_step_time_that_is_not_that_of_the_steps_is_told() -> None:
    costs: dict[str, Any] = {"back_ends": {}, "judge": None}
    steps = {"mode": "tandem", "n": 9, "step_ms_p50": 20.0, "step_ms_p99": 30.0, "over_frame": 0.0}
    told = [format_costs_table({**costs, "steps": [{**steps, "charged_ms": ms}]}) for ms in (21, 41)]
    assert ["is not that of the steps" in each for each in told] == [False, True]
