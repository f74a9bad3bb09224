"""A caller that is a program: sends sound to a server as time goes on, and keeps what it answers.

Speaks Moshi's protocol (`/api/chat`), so Kyutai's own server answers too; our events come from ours alone.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import numpy as np
import sphn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from backends import registry
from backends.engine import Samples
from backends.tts.long_texts import say
from backends.tts.protocol import SpeechRefused, TextToSpeech
from data_schemas.config.serving import TOKEN_ENV
from data_schemas.errors import BackendError, ConfigError
from data_schemas.units import FRAME_N_SAMPLES, FRAME_S, SAMPLE_RATE_HZ
from kame_model.serve.client.talk_record import TalkRecord
from kame_model.serve.client.untrusted_events import read_event, remove_control_characters
from kame_model.serve.web.moshi_protocol import Kind
from spoken.reader import speak
from spoken.spoken_text import Unspeakable

OWED_S = 2.0
"""How long to wait at the end for the next of the frames that a busy server still owes, seconds."""
READY_S = 30.0
"""How long a server may take until it is ready, seconds."""
MAX_QUERY_PROMPT_CHARS = 2_000
"""Longest prompt in an address, as it is written there: servers and proxies take addresses of 8 KB, some of 4."""
_ASKING_VOICE = 1
"""Of Kokoro's voices; its first is what servers speak by unless somebody says otherwise."""
USER = 1
"""Channel of the user in two-channel sound of ours: the right one; 0 is the assistant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Whom to call, and how.

    Attributes:
        url: http(s):// or ws(s):// and host[:port], or these alone.
        token: to be let in; None: none is shown.
        mode, back_end, model, prompt: in place of the server's own; a prompt too long for an address is sent as the
            first message.
        consent: what the server gives with its notice of recordings (`/v1/about`): the caller has read it and agrees.
    """

    url: str
    token: str | None = None
    mode: str | None = None
    back_end: str | None = None
    model: str | None = None
    prompt: str | None = None
    consent: str | None = None

    @property
    def address(self) -> str:
        """The web socket's URL.

        Raises:
            ConfigError: it is no URL of a server.
        """
        prompt = None if self.first_message else self.prompt
        chosen = {"mode": self.mode, "back_end": self.back_end, "model": self.model, "prompt": prompt}
        wanted = {"events": "1", **chosen, "record": self.consent}
        query = urlencode({name: value for name, value in wanted.items() if value is not None})
        return f"{self.http.replace('http', 'ws', 1)}/api/chat?{query}"

    @property
    def first_message(self) -> bytes:
        """What is sent before anything else; empty: nothing is."""
        if self.prompt is None or len(quote(self.prompt)) <= MAX_QUERY_PROMPT_CHARS:
            return b""
        return bytes([Kind.METADATA]) + json.dumps({"prompt": self.prompt}).encode()

    @property
    def http(self) -> str:
        """The server's URL, without a slash at its end.

        Raises:
            ConfigError: it is no URL of a server.
        """
        place = urlsplit(self.url if "://" in self.url else f"ws://{self.url}")
        scheme = {"http": "http", "ws": "http", "https": "https", "wss": "https"}.get(place.scheme)
        if scheme is None or not place.hostname:
            raise ConfigError(f"{self.url!r} is no server's URL.", "Say http://host:port or https://host:port.")
        return f"{scheme}://{place.netloc}{place.path.rstrip('/')}"


async def talk(
    call: Call,
    frames: AsyncIterator[Samples],
    on_event: Callable[[dict[str, Any]], None] = lambda event: None,
    on_sound: Callable[[Samples], None] = lambda samples: None,
    kept: TalkRecord | None = None,
) -> TalkRecord:
    """A conversation, until the frames end or the server ends it.

    Args:
        frames: what the caller says, float32[1920] each; they come when it is said, not before.
        on_event: called with each event of the server.
        on_sound: called with each piece of what the server says, 24 kHz.
        kept: where the conversation is put as it goes on, for those who want it whatever ends it; it is returned.

    Raises:
        BackendError: there is no server, or it does not let us in (`status` is then HTTP's), or says what is not of
            the protocol, or does not take the prompt; the message has its reason.
    """
    record = kept or TalkRecord()
    async with _connect(call) as socket:
        record.start_s = asyncio.get_running_loop().time()
        if call.first_message:
            await socket.send(call.first_message)
        hearing = asyncio.create_task(_hear(socket, record, on_event, on_sound, bool(call.first_message)))
        saying = asyncio.create_task(_say(socket, frames, record))
        try:
            await asyncio.wait({hearing, saying}, return_when=asyncio.FIRST_COMPLETED)
            if saying.done():
                await saying
                await _await_owed(record, hearing)
            await socket.close()
            await hearing
        finally:
            for task in (saying, hearing):
                task.cancel()
            await asyncio.gather(saying, hearing, return_exceptions=True)
    return record


async def in_real_time(sound: Samples, silence_s: float) -> AsyncIterator[Samples]:
    """The frames of a sound, each when a microphone would have had it, and then silence.

    Args:
        silence_s: how long to go on with silence after its end, seconds.
    """
    clock = asyncio.get_running_loop()
    start_s = clock.time()
    n_frames = -(-(len(sound) + round(silence_s * SAMPLE_RATE_HZ)) // FRAME_N_SAMPLES)
    for number in range(n_frames):
        await asyncio.sleep(start_s + (number + 1) * FRAME_S - clock.time())
        piece = sound[number * FRAME_N_SAMPLES : (number + 1) * FRAME_N_SAMPLES]
        yield np.pad(piece, (0, FRAME_N_SAMPLES - len(piece)))


async def play_until_answered(sound: Samples, record: TalkRecord, timeout_s: float) -> AsyncIterator[Samples]:
    """The frames of a sound, each when a microphone would have had it, and then silence until its answer has ended.

    Args:
        sound: what the caller says.
        record: what comes of it; `lacks` is set where no answer comes, or it does not end.
        timeout_s: how long after the sound's end to wait at the most, seconds.
    """
    clock, n_sent = asyncio.get_running_loop(), 0
    record.watch.expect(sound)
    async for frame in in_real_time(sound, timeout_s):
        yield frame
        n_sent += len(frame)
        if n_sent >= len(sound) and record.has_answer_ended(clock.time()):
            if not record.watch.has_begun:
                record.lacks = "No answer came: the chat model failed."
            return
    if record.watch.has_begun:
        record.lacks = f"Timed out: the answer had not ended {timeout_s:g} s after what was said."
    else:
        record.lacks = f"Timed out: no answer came within {timeout_s:g} s after what was said."


async def play_one_after_another(
    sounds: Iterable[Samples], said: Callable[[Samples], AsyncIterator[Samples]]
) -> AsyncIterator[Samples]:
    """The frames of several sounds, each said when the one before has been listened to.

    Args:
        said: the frames of one: `in_real_time` or `play_until_answered` with the rest of their arguments.
    """
    for sound in sounds:
        async for frame in said(sound):
            yield frame


def speak_user(text: str) -> Samples:
    """What the user says, spoken by the embedded text-to-speech; not with the voice that servers have by default.

    Raises:
        ConfigError: the text cannot be said.
        BackendError: the engine does not work.
    """
    tts: TextToSpeech = registry.build("tts", "kokoro", {})
    try:
        return say(tts, speak(text), tts.voices()[_ASKING_VOICE].name, 1.0).samples
    except (Unspeakable, SpeechRefused) as error:
        raise ConfigError(f"{text!r} cannot be said: {error}.", "Word it otherwise.") from error


def read_user(path: Path) -> Samples:
    """What the user says in a sound file: all of it, or of two channels the right one, as our datasets have it.

    Raises:
        ConfigError: it is no sound file, or has no sound.
    """
    import soundfile
    import soxr

    try:
        sound, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.LibsndfileError) as error:
        raise ConfigError(f"Cannot read the sound in {path}: {error}", "wav, flac, ogg and mp3 are read.") from error
    n_channels = sound.shape[1]
    if not len(sound) or n_channels > 2:
        raise ConfigError(f"{path} has {n_channels} channels of {len(sound)} samples.", "One or two are expected.")
    user: Samples = sound[:, USER if n_channels == 2 else 0]
    return np.asarray(soxr.resample(user, rate_hz, SAMPLE_RATE_HZ), np.float32)


async def _await_owed(record: TalkRecord, hearing: "asyncio.Task[None]") -> None:
    """Waits for a frame for each one said, as long as more come; Moshi's own server skips the first."""
    n_owed = record.n_owed
    while n_owed > FRAME_N_SAMPLES:
        await asyncio.wait({hearing}, timeout=OWED_S)
        if hearing.done() or record.n_owed == n_owed:
            return
        n_owed = record.n_owed


async def _say(socket: ClientConnection, frames: AsyncIterator[Samples], record: TalkRecord) -> None:
    opus = sphn.OpusStreamWriter(SAMPLE_RATE_HZ)
    try:
        async for frame in frames:
            record.say(frame)
            if packet := opus.append_pcm(frame):
                await socket.send(bytes([Kind.AUDIO]) + packet)
    except ConnectionClosed:
        return  # `_hear` has seen it too, and knows why


async def _hear(
    socket: ClientConnection,
    record: TalkRecord,
    on_event: Callable[[dict[str, Any]], None],
    on_sound: Callable[[Samples], None],
    awaits_change: bool,
) -> None:
    """Keeps all that comes.

    Args:
        awaits_change: the server has been asked for a change, and has not said yet that it is done.

    Raises:
        BackendError: it is not done, or nothing was said of it until the end; or a message is none of the protocol.
    """
    clock = asyncio.get_running_loop()
    opus = sphn.OpusStreamReader(SAMPLE_RATE_HZ)
    try:
        async for message in socket:
            kind, body = (message[0], message[1:]) if message and isinstance(message, bytes) else (Kind.HANDSHAKE, b"")
            if kind == Kind.AUDIO:
                samples: Samples = opus.append_bytes(body)
                record.hear(clock.time(), samples)
                on_sound(samples)
            elif kind == Kind.TEXT:
                record.read(clock.time(), remove_control_characters(body.decode(errors="replace")))
            elif kind == Kind.METADATA:
                event = read_event(body)
                awaits_change = awaits_change and event["kind"] != "changed"
                record.note(clock.time(), event)
                on_event(event)
            elif kind == Kind.ERROR and awaits_change:
                raise BackendError(
                    f"The server does not take the prompt: {remove_control_characters(body.decode(errors='replace'))}"
                )
    except ConnectionClosed as error:
        record.end(f"connection lost: {error}")
    except ValueError as error:  # neither Opus nor an event
        raise _make_foreign_error(f"A message of the server ({error})") from error
    if awaits_change and not record.ended:
        raise BackendError(
            "The server has not said that it took the prompt, so what it answered may be without it.",
            "Talk with a server of `kame serve`, or put a shorter prompt.",
        )


@asynccontextmanager
async def _connect(call: Call) -> AsyncIterator[ClientConnection]:
    """A socket of which the server has said that it is ready, for the time of a block.

    Raises:
        BackendError: nobody answers there, or does not let us in.
    """
    headers = {} if call.token is None else {"Authorization": f"Bearer {call.token}"}
    async with AsyncExitStack() as stack:
        try:
            connecting = connect(call.address, additional_headers=headers, open_timeout=READY_S, proxy=None)
            socket = await stack.enter_async_context(connecting)
            async with asyncio.timeout(READY_S):
                first = await socket.recv()
        except InvalidStatus as error:
            status = str(error.response.status_code)
            raise BackendError(
                f"{call.url} does not let us in: {_find_reason(error)}", _find_remedy(error), status
            ) from error
        except ssl.SSLError as error:
            remedy = "Name its CA in SSL_CERT_FILE."
            raise BackendError(f"{call.url} has no certificate we trust: {error}", remedy) from error
        except (OSError, WebSocketException) as error:
            why = str(error) or type(error).__name__
            raise BackendError(
                f"No server answers at {call.url}: {why}.", "Start one: kame serve CHECKPOINT."
            ) from error
        if first != bytes([Kind.HANDSHAKE]):
            raise _make_foreign_error(call.url)
        yield socket


def _make_foreign_error(what: str) -> BackendError:
    return BackendError(f"{what} does not speak Moshi's protocol.", "Is it the server's own URL?")


def _find_reason(error: InvalidStatus) -> str:
    """What the server says of it, where it says so in JSON."""
    status = f"HTTP {error.response.status_code}"
    try:
        told = json.loads(error.response.body or b"")["error"]
    except (ValueError, KeyError, TypeError):
        return f"{status}."
    return f"{told.get('message', told) if isinstance(told, dict) else told} ({status})"


def _find_remedy(error: InvalidStatus) -> str:
    return {
        401: f"Put its token into {TOKEN_ENV}.",
        403: "Ask its host.",
        404: "Is it the server's own URL?",
        503: "Try again later.",
    }.get(error.response.status_code, "")
