"""Calls into a real server on a simulated clock: repeated they are the same, and what took time is charged."""

import json
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends.engine import Samples
from backends.listener.protocol import Heard, Window
from data_schemas.config.model import SamplingConfig
from data_schemas.errors import BackendError, ConfigError, StoreError
from data_schemas.units import FRAME_S
from kame_model.checkpoint.load import Checkpoint, load_checkpoint
from kame_model.evaluate.calls.call import Call, CalledServer
from kame_model.evaluate.calls.delays import find_audible_spans
from kame_model.evaluate.calls.measured import TIMES, MeasuredTimes
from kame_model.serve.device import slots
from kame_model.serve.server import KameServer
from kame_model.serve.voice.clauses import PAUSE_N_FRAMES
from tests.support.counting_chat import CountingChat, parts_with
from tests.support.serving import LoudnessListener, doubles, saying, serve_config
from tests.support.writing_front_end import WritingEngine, words_from

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("nothing_is_probed")]

QUESTION = saying("alpha", 10)


@pytest.fixture(scope="module", name="checkpoint")
def _loaded(checkpoint: str) -> Checkpoint:
    return load_checkpoint(checkpoint)


def told(call: Call, kind: str) -> list[tuple[float, dict[str, Any]]]:
    return [(event.time_s, event.data) for event in call.events if event.kind == kind]


def without_ids(call: Call) -> list[tuple[str, float, object]]:
    return [(each.kind, each.time_s, each.data | {"session_id": ""}) for each in call.events]


def same(one: Call, other: Call) -> bool:
    return (
        np.array_equal(one.assistant, other.assistant)
        and (one.pieces, one.turns, one.ends) == (other.pieces, other.turns, other.ends)
        and without_ids(one) == without_ids(other)
    )


def test_the_cascade_needs_no_checkpoint_and_its_answer_comes_after_the_delay(tmp_path: Path) -> None:
    chat = CountingChat("Nine ", "eggs.")
    with CalledServer(None, serve_config(), parts_with(chat), MeasuredTimes(str(tmp_path))) as server:
        call = server.call([QUESTION], mode="cascade", seed=0, tail_s=20, delay_s=1.0)
        with pytest.raises(ConfigError, match="no checkpoint for mode tandem"):
            server.call([QUESTION], mode="tandem", seed=0, tail_s=20)
    assert call.text == "Nine eggs."
    assert call.turns == [(0.0, 0.8)]
    (asked_s, _), (answered_s, _) = *told(call, "oracle_asked"), *told(call, "oracle")
    assert answered_s - asked_s == pytest.approx(1.0, abs=1e-5)
    (start_s, end_s), *_ = find_audible_spans(call.assistant)
    synthesis_s = sum(json.loads(line).get("took_s", 0) for line in (tmp_path / TIMES).read_text().splitlines())
    assert answered_s < start_s <= answered_s + synthesis_s + 2 * FRAME_S
    assert call.ends[0] is not None
    assert call.ends[0] > end_s
    assert len(call.user) == len(call.assistant)


def test_a_front_end_that_is_read_out_is_charged_what_its_synthesis_took(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "FrontEndEngine", partial(WritingEngine, [words_from(12, "nine eggs")]))

    def call() -> Call:
        config = serve_config(voice="synthesised")
        with CalledServer(checkpoint, config, doubles(), MeasuredTimes(str(tmp_path))) as server:
            return server.call([QUESTION], mode="direct", seed=0, tail_s=8)

    call()
    (record,) = [json.loads(line) for line in (tmp_path / TIMES).read_text().splitlines()]
    for took_s in (0.0, 1.3):
        (tmp_path / TIMES).write_text(json.dumps(record | {"took_s": took_s}) + "\n")
        heard = call()
        assert heard.text == "nine eggs"
        whole_s = FRAME_S * (1 + 15 + PAUSE_N_FRAMES)
        ((start_s, _), *_) = find_audible_spans(heard.assistant)
        assert whole_s + took_s <= start_s <= whole_s + took_s + 2 * FRAME_S
        assert heard.pieces[0][0] == pytest.approx(start_s, abs=1e-3)
        assert heard.ends[0] is not None


def test_each_step_is_charged_what_one_took_when_the_server_was_started(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "FrontEndEngine", partial(WritingEngine, [words_from(12, "nine eggs")]))

    def call(folder: str, probed_s: float) -> Call:
        async def probed(*_: object) -> dict[int, float]:
            return {1: probed_s}

        monkeypatch.setattr(slots, "measure_idle_device", probed)
        with CalledServer(checkpoint, serve_config(), doubles(), MeasuredTimes(str(tmp_path / folder))) as server:
            return server.call([QUESTION], mode="direct", seed=0, tail_s=2)

    quick, slow, again = call("quick", 0.01), call("slow", 0.05), call("slow", 0.01)
    assert quick.text == slow.text == "nine eggs"
    assert [at_s for at_s, _ in slow.pieces] == pytest.approx([at_s + 0.04 for at_s, _ in quick.pieces])
    assert same(slow, again)  # it was measured once
    assert (quick.step_s, slow.step_s, again.step_s) == (0.01, 0.05, 0.05)
    assert len(slow.steps_s) == len(slow.user) // 1920
    overloaded = call("overloaded", 0.1)  # a step takes longer than its frame: each comes later than the one before
    assert overloaded.pieces[-1][0] - overloaded.pieces[0][0] > quick.pieces[-1][0] - quick.pieces[0][0]


def test_a_server_whose_step_time_cannot_be_stored_is_stopped(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreError("The disk is full.", "Free disk space.")

    async def probed(*_: object) -> dict[int, float]:
        return {1: 0.01}

    stopped: list[KameServer] = []
    stop = KameServer.__aexit__

    async def stop_and_tell(self: KameServer, *of: Any) -> None:
        stopped.append(self)
        await stop(self, *of)

    monkeypatch.setattr(slots, "measure_idle_device", probed)
    monkeypatch.setattr(MeasuredTimes, "keep", fail)
    monkeypatch.setattr(KameServer, "__aexit__", stop_and_tell)
    server = CalledServer(checkpoint, serve_config(), doubles(), MeasuredTimes(str(tmp_path)))
    with pytest.raises(StoreError, match="full"):
        server.__enter__()
    assert len(stopped) == 1


def test_a_repeated_call_is_the_same_whatever_was_called_before(checkpoint: Checkpoint, tmp_path: Path) -> None:
    config = serve_config(sampling=SamplingConfig())
    chat = CountingChat("Nine ", "eggs.")
    with CalledServer(checkpoint, config, parts_with(chat), MeasuredTimes(str(tmp_path))) as server:
        first = server.call([QUESTION], mode="tandem", seed=7, tail_s=2)
        other = server.call([QUESTION], mode="tandem", seed=8, tail_s=2)
        server.call(saying("bravo", 3), mode="direct", seed=1, tail_s=0.5)
        again = server.call([QUESTION], mode="tandem", seed=7, tail_s=2)
    n_asked = chat.n_asked
    with CalledServer(checkpoint, config, parts_with(chat), MeasuredTimes(str(tmp_path))) as server:
        server.call(saying("bravo", 2), mode="direct", seed=1, tail_s=1.37)
        resumed = server.call([QUESTION], mode="tandem", seed=7, tail_s=2)
    assert same(first, again)
    assert same(first, resumed)
    assert not same(first, other)
    assert chat.n_asked == n_asked
    assert told(first, "oracle")


def test_another_model_file_at_the_same_path_is_asked_again(tmp_path: Path) -> None:
    gguf, chat = tmp_path / "model.gguf", CountingChat("Nine ", "eggs.")
    config = serve_config(back_ends=[{"chat": {"engine": "llamacpp", "model": str(gguf)}}])

    def count_requests(content: bytes) -> int:
        gguf.write_bytes(content)
        before = chat.n_asked
        with CalledServer(None, config, parts_with(chat), MeasuredTimes(str(tmp_path))) as server:
            server.call([QUESTION], mode="cascade", seed=0, tail_s=20, delay_s=0.2)
        return chat.n_asked - before

    assert [count_requests(content) for content in (b"one", b"one", b"another")] == [1, 0, 1]


def test_what_a_request_took_is_charged(checkpoint: Checkpoint, tmp_path: Path) -> None:
    parts = parts_with(CountingChat("Nine ", "eggs."))
    with CalledServer(checkpoint, serve_config(), parts, MeasuredTimes(str(tmp_path))) as server:
        server.call([QUESTION], mode="tandem", seed=0, tail_s=3)
    records = [json.loads(line) for line in (tmp_path / TIMES).read_text().splitlines()]
    slower = [{**each, "pieces": [[0.4, "Nine "], [0.9, "eggs."]], "took_s": 1.0} for each in records]
    (tmp_path / TIMES).write_text("".join(json.dumps(each) + "\n" for each in slower))
    with CalledServer(checkpoint, serve_config(), parts, MeasuredTimes(str(tmp_path))) as server:
        call = server.call([QUESTION], mode="tandem", seed=0, tail_s=3)
    (last_s, last), done_s = told(call, "oracle_asked")[-1], told(call, "oracle_done")[-1][0]
    ages = [data["age_s"] for _, data in told(call, "oracle") if data["oracle"] == last["oracle"]]
    assert ages == [1.0]  # a mark may follow the last word, so that it waits for the end
    assert done_s == pytest.approx(last_s + 1.0, abs=1e-4)


def test_a_conversation_waits_for_each_answer(tmp_path: Path) -> None:
    chat = CountingChat("Nine eggs.")
    with CalledServer(None, serve_config(), parts_with(chat), MeasuredTimes(str(tmp_path))) as server:
        call = server.call([QUESTION, saying("bravo", 6)], mode="cascade", seed=0, tail_s=20, pause_s=0.8, delay_s=0.3)
    assert len(told(call, "oracle_done")) == 2
    assert call.text == "Nine eggs. Nine eggs."
    assert call.ends[0] is not None
    assert call.turns[1][0] == pytest.approx(call.ends[0] + 0.8, abs=1e-3)


def test_one_sound_is_played_whatever_the_server_says(checkpoint: Checkpoint, tmp_path: Path) -> None:
    sound = np.concatenate([QUESTION, saying(None, 5), saying("bravo", 5), saying(None, 3)])
    with CalledServer(checkpoint, serve_config(), doubles(), MeasuredTimes(str(tmp_path))) as server:
        call = server.call(sound, mode="direct", seed=0, tail_s=0.4)
    assert np.array_equal(call.user[: len(sound)], sound)
    assert len(call.user) == len(sound) + 5 * 1920
    assert call.turns == [(0.0, 1.6)]
    assert call.ends == [None]


def test_a_chat_model_that_is_gone_ends_the_call(tmp_path: Path) -> None:
    chat = CountingChat(error=BackendError("The endpoint is gone."))
    with (
        CalledServer(None, serve_config(), parts_with(chat), MeasuredTimes(str(tmp_path))) as server,
        pytest.raises(BackendError, match="is gone"),
    ):
        server.call([QUESTION], mode="cascade", seed=0, tail_s=5)


def test_a_classifier_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="classifier"):
        CalledServer(None, serve_config(classifier="a:b"), doubles(), MeasuredTimes(str(tmp_path)))


class ThreadedEar:
    """Tells what it hears from a thread of its own, which is done with each frame before it is fed the next."""

    failure = None

    def __init__(self, on_heard: Callable[[Heard], None], fed: list[int]) -> None:
        self._inner, self._fed = LoudnessListener(on_heard), fed

    def feed(self, samples: Samples, windows: Sequence[Window] | None = None) -> None:
        self._fed.append(len(samples))
        self._in_thread(lambda: self._inner.feed(samples))

    def end_turn(self) -> None:
        self._in_thread(self._inner.end_turn)

    def close(self) -> None:
        """Nothing is open."""

    def _in_thread(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()


class ThreadedRecogniser:
    name = "threaded"

    def __init__(self) -> None:
        self.fed: list[int] = []

    def listen(self, on_heard: Callable[[Heard], None]) -> ThreadedEar:
        return ThreadedEar(on_heard, self.fed)

    def close(self) -> None:
        """There is nothing to give back."""


def test_a_recogniser_that_tells_by_itself_is_heard_once_in_real_time(tmp_path: Path) -> None:
    threaded = ThreadedRecogniser()
    chat = CountingChat("Nine eggs.")

    def call(sound: Samples) -> Call:
        times = MeasuredTimes(str(tmp_path))
        with CalledServer(None, serve_config(), parts_with(chat, threaded), times) as server:
            return server.call([sound], mode="cascade", seed=0, tail_s=20, delay_s=0.2)

    first = call(saying("alpha", 3))
    n_fed = len(threaded.fed)
    assert n_fed > 0
    assert same(first, call(saying("alpha", 3)))
    assert len(threaded.fed) == n_fed  # what came of this sound is known
    assert [data["text"] for _, data in told(first, "heard")][-1] == "alpha"
    longer = call(saying("alpha", 5))  # begins alike, and goes on otherwise
    assert len(threaded.fed) > n_fed + 3
    assert [data["text"] for _, data in told(longer, "heard")] == ["alpha", "alpha alpha", "alpha alpha"]


def test_a_call_that_is_interrupted_leaves_the_server_whole(tmp_path: Path) -> None:
    class Interrupting(CountingChat):
        async def stream(self, payload: dict[str, Any]) -> AsyncGenerator[str, None]:
            if not self.n_asked:
                self.usage.n_requests += 1
                signal.raise_signal(signal.SIGINT)
            async for piece in super().stream(payload):
                yield piece

    times = MeasuredTimes(str(tmp_path))
    with CalledServer(None, serve_config(), parts_with(Interrupting("Nine eggs.")), times) as server:
        with pytest.raises(KeyboardInterrupt):
            server.call([QUESTION], mode="cascade", seed=0, tail_s=5)
        assert server.call([QUESTION], mode="cascade", seed=0, tail_s=5).text == "Nine eggs."
