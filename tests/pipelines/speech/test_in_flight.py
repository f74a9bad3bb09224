"""Speech by a server: several calls at once over few connections, the same rows whatever their number."""

import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import soundfile

from backends import registry
from backends.asr.protocol import Recogniser
from backends.engine import Samples
from backends.tts.double import DoubleTts
from backends.tts.protocol import Speech, TextToSpeech
from data_schemas.config import GateConfig, SpeechConfig
from data_schemas.errors import BackendError
from data_schemas.records import DialogueClips
from pipelines.speech.stage import SpeechStage
from pipelines.stage import StageResult
from tests.support.http_servers import QuietHandler, http_server
from tests.support.spoken_dialogues import dialogues

pytestmark = pytest.mark.full

SPEECH = "/v1/audio/speech"
GIVES_UP_S = 20.0
N_DIALOGUES = 8
TEXTS_HEARD = GateConfig(asr="openai", max_wer=1.0, every_number=False)  # the server hears nothing but "yes"


@dataclass
class Server:
    """Speaks as the double does, hears "yes", and answers no call to speak before `together` of them are there."""

    together: threading.Barrier
    status_of: Callable[[str], int]
    callers: set[tuple[str, int]] = field(default_factory=set)
    n_calls: int = 0
    n_under_way: int = 0
    most_under_way: int = 0
    base_url: str = ""
    _counting: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def counted(self, caller: tuple[str, int]) -> Iterator[None]:
        with self._counting:
            self.callers.add(caller)
            self.n_calls += 1
            self.n_under_way += 1
            self.most_under_way = max(self.most_under_way, self.n_under_way)
        yield
        with self._counting:
            self.n_under_way -= 1

    def spoken(self, body: bytes) -> tuple[int, bytes]:
        asked = json.loads(body)
        self.together.wait(GIVES_UP_S)
        said = DoubleTts().synthesise(asked["input"], asked["voice"], asked["speed"])
        file = io.BytesIO()
        soundfile.write(file, said.samples, 24_000, format="WAV", subtype="PCM_16")
        return self.status_of(asked["input"]), file.getvalue()


@contextmanager
def serving(n_together: int, status_of: Callable[[str], int] = lambda text: 200) -> Iterator[Server]:
    told = Server(threading.Barrier(n_together), status_of)

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def posted(self, body: bytes) -> None:
            with told.counted(self.client_address):
                status, answer = told.spoken(body) if self.path == SPEECH else (200, b'{"text": "yes"}')
            self.answer(status, answer, "audio/wav" if self.path == SPEECH else "application/json")

    with http_server(Handler) as url:
        told.base_url = f"{url}/v1"
        yield told


def stage(server: Server, n_calls: int, recogniser: Recogniser | None = None) -> SpeechStage:
    where: dict[str, str | int] = {"base_url": server.base_url, "model": "m", "max_attempts": 1}
    where["max_calls_in_flight"] = n_calls
    tts: TextToSpeech = registry.build("tts", "openai", where | {"voices": "double_a,double_b"})
    recogniser = recogniser or registry.build("asr", "openai", where)
    return SpeechStage(SpeechConfig(tts="openai"), TEXTS_HEARD, tts, recogniser, 0)


def run(made: SpeechStage) -> StageResult[DialogueClips]:
    return made.run([(each,) for each in dialogues(N_DIALOGUES)])


def test_calls_overlap_up_to_their_limit_over_as_many_connections_and_change_nothing() -> None:
    made: dict[int, Any] = {}
    for n_calls in (1, 2, 4):
        with serving(n_calls) as server:
            speech = stage(server, n_calls)
            made[n_calls] = run(speech), run(speech)
            assert server.n_calls == 2 * 2 * 2 * N_DIALOGUES  # runs, utterances, said and heard
            assert server.most_under_way == n_calls
            assert len(server.callers) == n_calls
    assert made[1] == made[2] == made[4]
    assert [each.dialogue_id for each in made[4][0].outputs] == [each.dialogue_id for each in dialogues(N_DIALOGUES)]


def test_what_the_server_refuses_is_the_reject_of_its_own_dialogue() -> None:
    with serving(1, lambda text: 422 if "number two" in text else 200) as server:
        result = run(stage(server, 4))
    assert [each.dialogue_id for each in result.rejects] == ["mine-2-v0", "mine-6-v0"]
    assert [each.dialogue_id for each in result.outputs] == [f"mine-{number}-v0" for number in (0, 1, 3, 4, 5, 7)]


def test_a_server_that_is_broken_ends_the_run_and_is_called_no_more() -> None:
    with serving(4, lambda text: 500) as server:
        with pytest.raises(BackendError, match="HTTP 500"):
            run(stage(server, 4))
        assert server.n_calls == 4


class Alone:
    """A recogniser that runs here: hears "yes", and notices who else calls it meanwhile."""

    name = digest = "alone"
    max_calls_in_flight = 1

    def __init__(self) -> None:
        self.is_called = threading.Lock()
        self.called_again = threading.Event()

    def transcribe(self, samples: Samples, sample_rate_hz: int) -> str:
        if not self.is_called.acquire(blocking=False):
            self.called_again.set()
            return "yes"
        self.called_again.wait(0.02)
        self.is_called.release()
        return "yes"


def test_an_engine_that_runs_here_is_called_by_one_thread_at_a_time() -> None:
    recogniser = Alone()
    with serving(4) as server:
        run(stage(server, 4, recogniser))
    assert not recogniser.called_again.is_set()


class Watched(DoubleTts):
    """Keeps which threads called it."""

    def __init__(self) -> None:
        self.threads: set[threading.Thread] = set()

    def synthesise(self, text: str, voice: str, speed: float, take: int = 0) -> Speech:
        self.threads.add(threading.current_thread())
        return super().synthesise(text, voice, speed, take)


def test_engines_that_run_here_are_called_without_threads() -> None:
    tts = Watched()
    run(SpeechStage(SpeechConfig(tts="double"), GateConfig(asr="none"), tts, None, 0))
    assert tts.threads == {threading.current_thread()}
