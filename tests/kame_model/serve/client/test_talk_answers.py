"""A caller that is a program waits until it has been answered; against a whole server, on a simulated clock."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import urlsplit

import numpy as np
import pytest

from backends.chat.protocol import LiveChat
from backends.engine import Samples
from data_schemas.errors import BackendError
from data_schemas.units import SAMPLE_RATE_HZ
from kame_model.checkpoint.load import Checkpoint
from kame_model.serve.client import client as talk_module
from kame_model.serve.client.answer_watch import QUIET_S
from kame_model.serve.client.client import ServerCall, play_until_answered, talk
from kame_model.serve.client.talk_record import TalkRecord
from kame_model.serve.oracle.prompts import load_prompt
from kame_model.serve.oracle.routing import BackEnd
from tests.support.cascade_talk import SlowChat
from tests.support.served import AsgiSocket, app_of
from tests.support.serving import RepeatingChat, doubles, saying

pytestmark = [pytest.mark.looptime, pytest.mark.full]
CASCADE = ServerCall(url="http://here", mode="cascade")
QUESTION = np.concatenate([saying("alpha", 12), saying(None, 2)])


class Line:
    """A client's side of a socket to an app, as `talk` uses it."""

    def __init__(self, socket: AsgiSocket) -> None:
        self._socket, self._n_read = socket, 0

    async def send(self, message: bytes) -> None:
        self._socket.send(message)

    async def close(self) -> None:
        if not self._socket.over.done():
            await self._socket.leave()

    async def __aiter__(self) -> AsyncIterator[bytes | str]:
        while not self._socket.over.done() or self._n_read < len(self._socket.received):
            if self._n_read == len(self._socket.received):
                await asyncio.sleep(0.01)
                continue
            self._n_read += 1
            yield self._socket.received[self._n_read - 1]


Asked = Callable[..., Awaitable[tuple[TalkRecord, float]]]


@pytest.fixture
def asked(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Asks a question: what comes of it, and how long after its end the talk ends, seconds."""

    async def ask(
        chat: LiveChat, call: ServerCall = CASCADE, question: Samples = QUESTION, timeout_s: float = 60.0
    ) -> tuple[TalkRecord, float]:
        parts = replace(doubles(), back_ends={"default": BackEnd("default", chat, load_prompt("tandem"))})
        clock, talked = asyncio.get_running_loop(), TalkRecord()
        async with app_of(checkpoint, parts, cycle={"first_token_timeout_s": 30}) as (_, app):

            @asynccontextmanager
            async def connected(call: ServerCall) -> AsyncIterator[Line]:
                place = urlsplit(call.address)
                line = Line(AsgiSocket(app, f"{place.path}?{place.query}"))
                yield line
                await line.close()

            monkeypatch.setattr(talk_module, "_connect", connected)
            begin_s = clock.time()
            await talk(call, play_until_answered(question, talked, timeout_s), kept=talked)
        return talked, clock.time() - begin_s - len(question) / SAMPLE_RATE_HZ

    return ask


def said(talked: TalkRecord) -> str:
    return " ".join(text for _, speaker, text in talked.get_lines() if speaker == "assistant")


async def test_the_first_words_of_a_busy_cascade_are_waited_for_and_the_rest_too(asked: Asked) -> None:
    talked, listened_s = await asked(SlowChat(["It is nine. ", "It was ten ", "before that."], gap_s=9.0))
    assert said(talked).split() == ["It", "is", "nine.", "It", "was", "ten", "before", "that."]
    assert talked.mix_sound()[:, 0].any()
    assert talked.lacks == ""
    assert 3 * 9.0 + QUIET_S < listened_s < 3 * 9.0 + QUIET_S + 5.0


async def test_where_no_answer_comes_that_is_told_after_the_longest_wait(asked: Asked) -> None:
    """Nobody hears a question here, so nothing is asked."""
    talked, listened_s = await asked(SlowChat(), question=0 * QUESTION, timeout_s=9.0)
    assert talked.lacks == "Timed out: no answer came within 9 s after what was said."
    assert listened_s == pytest.approx(9.0, abs=0.5)


async def test_a_chat_model_that_fails_ends_the_wait_of_a_cascade(asked: Asked) -> None:
    talked, listened_s = await asked(SlowChat([BackendError("nobody there")]))
    assert talked.lacks == "No answer came: the chat model failed."
    assert listened_s < 2 * QUIET_S


async def test_a_front_end_that_never_stops_is_left_after_the_longest_wait(asked: Asked) -> None:
    """The tiny one says a piece of text with each frame."""
    talked, listened_s = await asked(RepeatingChat(), replace(CASCADE, mode="direct"), timeout_s=9.0)
    assert len(said(talked)) > 100
    assert talked.lacks == "Timed out: the answer had not ended 9 s after what was said."
    assert listened_s == pytest.approx(9.0, abs=0.5)


async def test_a_long_prompt_goes_in_the_first_message_and_one_that_is_refused_is_told(asked: Asked) -> None:
    wish = "Sei höflich und knapp. " * 150
    call = replace(CASCADE, prompt=wish)
    assert len(call.address) < 2_500
    chat = SlowChat(["It is nine."])
    talked, _ = await asked(chat, call)
    assert said(talked) == "It is nine."
    assert chat.asked[0]["messages"][0]["content"].startswith(wish.strip())
    (changed,) = [each for each in talked.events if each["kind"] == "changed"]
    assert changed["data"]["prompt"] == wish
    with pytest.raises(BackendError, match=r"rejected the prompt: .* At most 16000 are allowed"):
        await asked(SlowChat(["No."]), replace(call, prompt=5 * wish))
