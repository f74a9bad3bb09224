"""The client: sends audio to a server in real time, and records what the server answers.

It uses Moshi's protocol (`/api/chat`), so it also works with Kyutai's own server; only our server sends events.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
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
"""Timeout at the end for more of the audio that a busy server still owes, seconds."""
READY_S = 30.0
"""Timeout until a server is ready, seconds."""
MAX_QUERY_PROMPT_CHARS = 2_000
"""Longest URL-encoded prompt in a URL: servers and proxies accept URLs of 8 KB, some of 4."""
_ASKING_VOICE = 1
"""Index of one of Kokoro's voices; servers use its first by default."""
USER = 1
"""The user's channel in our two-channel audio, the right one; 0 is the assistant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCall:
    """A server's address and the choices of a call.

    Attributes:
        url: http(s):// or ws(s):// and host[:port], or host[:port] alone.
        token: the access token, or None if none is sent.
        mode, back_end, model, prompt: replace the server's defaults; a prompt too long for a URL becomes the first
            message.
        consent: the consent token from the server's notice of recordings (`/v1/about`): the caller has read it and
            agrees.
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
        """The URL of the web socket, with the choices of the call in its query.

        Raises:
            ConfigError: the URL is not that of a server.
        """
        prompt = None if self.first_message else self.prompt
        chosen = {"mode": self.mode, "back_end": self.back_end, "model": self.model, "prompt": prompt}
        wanted = {"events": "1", **chosen, "record": self.consent}
        query = urlencode({name: value for name, value in wanted.items() if value is not None})
        return f"{self.http.replace('http', 'ws', 1)}/api/chat?{query}"

    @property
    def first_message(self) -> bytes:
        """The message that is sent first, with a prompt that is too long for the URL; empty: there is none."""
        if self.prompt is None or len(quote(self.prompt)) <= MAX_QUERY_PROMPT_CHARS:
            return b""
        return bytes([Kind.METADATA]) + json.dumps({"prompt": self.prompt}).encode()

    @property
    def http(self) -> str:
        """The server's HTTP URL, without a slash at its end.

        Raises:
            ConfigError: the URL is not that of a server.
        """
        place = urlsplit(self.url if "://" in self.url else f"ws://{self.url}")
        scheme = {"http": "http", "ws": "http", "https": "https", "wss": "https"}.get(place.scheme)
        if scheme is None or not place.hostname:
            raise ConfigError(f"{self.url!r} is not a server's URL.", "Use http://host:port or https://host:port.")
        return f"{scheme}://{place.netloc}{place.path.rstrip('/')}"


async def talk(
    call: ServerCall,
    frames: AsyncIterator[Samples],
    on_event: Callable[[dict[str, Any]], None] = lambda event: None,
    on_sound: Callable[[Samples], None] = lambda samples: None,
    kept: TalkRecord | None = None,
) -> TalkRecord:
    """Calls a server, sends the frames and records what it sends, until frames and audio, or the call, have ended.

    A connection that is lost during the conversation raises nothing: the record's `ended` has the reason.

    Args:
        frames: what the caller says, float32[1920] each, yielded in real time.
        on_event: called with each event of the server.
        on_sound: called with each piece of the server's audio, 24 kHz.
        kept: a record that is filled during the conversation, so that it survives an error; it is returned.

    Raises:
        ConfigError: the URL is not that of a server.
        BackendError: there is no server, it rejects the call (`status` is the HTTP status), violates the protocol, or
            rejects the prompt; the message has the reason.
    """
    record = kept or TalkRecord()
    async with _connect(call) as socket:
        record.start_s = asyncio.get_running_loop().time()
        if call.first_message:
            with suppress(ConnectionClosed):  # `_receive_messages` gets the same error, and records the reason
                await socket.send(call.first_message)
        hearing = asyncio.create_task(_receive_messages(socket, record, on_event, on_sound, bool(call.first_message)))
        saying = asyncio.create_task(_send_frames(socket, frames, record))
        try:
            await asyncio.wait({hearing, saying}, return_when=asyncio.FIRST_COMPLETED)
            if saying.done():
                await saying
                await _wait_for_owed_audio(record, hearing)
            await socket.close()
            await hearing
        finally:
            for task in (saying, hearing):
                task.cancel()
            await asyncio.gather(saying, hearing, return_exceptions=True)
    return record


async def play_in_real_time(sound: Samples, silence_s: float) -> AsyncIterator[Samples]:
    """Yields the frames of a sound in real time, as a microphone would, and then silence.

    Args:
        silence_s: duration of the silence after its end, seconds.
    """
    clock = asyncio.get_running_loop()
    start_s = clock.time()
    n_frames = -(-(len(sound) + round(silence_s * SAMPLE_RATE_HZ)) // FRAME_N_SAMPLES)
    for number in range(n_frames):
        await asyncio.sleep(start_s + (number + 1) * FRAME_S - clock.time())
        piece = sound[number * FRAME_N_SAMPLES : (number + 1) * FRAME_N_SAMPLES]
        yield np.pad(piece, (0, FRAME_N_SAMPLES - len(piece)))


async def play_until_answered(sound: Samples, record: TalkRecord, timeout_s: float) -> AsyncIterator[Samples]:
    """Yields the frames of a sound in real time, and then silence until its answer has ended.

    Args:
        sound: what the caller says.
        record: the record of the conversation; `lacks` is set if no answer arrives, or it does not end.
        timeout_s: the longest wait after the end of the sound, seconds.
    """
    clock, n_sent = asyncio.get_running_loop(), 0
    record.watch.expect(sound)
    async for frame in play_in_real_time(sound, timeout_s):
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


async def play_in_sequence(
    sounds: Iterable[Samples], play: Callable[[Samples], AsyncIterator[Samples]]
) -> AsyncIterator[Samples]:
    """Yields the frames of several sounds, each after all frames of the previous one.

    Args:
        play: yields the frames of one: `play_in_real_time` or `play_until_answered` with their other arguments.
    """
    for sound in sounds:
        async for frame in play(sound):
            yield frame


def synthesise_user(text: str) -> Samples:
    """Synthesises the user's speech with the embedded text-to-speech, in another voice than the servers' default.

    Returns:
        Audio, float32 [n_samples] at 24 kHz.

    Raises:
        ConfigError: the text cannot be spoken.
        BackendError: the engine does not work.
    """
    tts: TextToSpeech = registry.build("tts", "kokoro", {})
    try:
        return say(tts, speak(text), tts.list_voices()[_ASKING_VOICE].name, 1.0).samples
    except (Unspeakable, SpeechRefused) as error:
        raise ConfigError(f"{text!r} cannot be said: {error}.", "Use other words.") from error


def read_user_audio(path: Path) -> Samples:
    """Reads the user's speech from a sound file: its only channel, or the right one of two, as in our datasets.

    Returns:
        Audio, float32 [n_samples], resampled to 24 kHz.

    Raises:
        ConfigError: it is not a sound file, is empty, or has more than two channels.
    """
    import soundfile
    import soxr

    try:
        sound, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.LibsndfileError) as error:
        raise ConfigError(
            f"Cannot read the audio file {path}: {error}", "Supported formats are wav, flac, ogg and mp3."
        ) from error
    n_channels = sound.shape[1]
    if not len(sound) or n_channels > 2:
        raise ConfigError(f"{path} has {n_channels} channels of {len(sound)} samples.", "One or two are expected.")
    user: Samples = sound[:, USER if n_channels == 2 else 0]
    return np.asarray(soxr.resample(user, rate_hz, SAMPLE_RATE_HZ), np.float32)


async def _wait_for_owed_audio(record: TalkRecord, hearing: "asyncio.Task[None]") -> None:
    """Waits until the server's audio is as long as the caller's, none arrives for `OWED_S`, or the call has ended.

    One frame may be missing, because Moshi's own server skips the first one.
    """
    n_owed = record.n_owed
    while n_owed > FRAME_N_SAMPLES:
        await asyncio.wait({hearing}, timeout=OWED_S)
        if hearing.done() or record.n_owed == n_owed:
            return
        n_owed = record.n_owed


async def _send_frames(socket: ClientConnection, frames: AsyncIterator[Samples], record: TalkRecord) -> None:
    """Records the caller's frames and sends them as Opus, until they end or the connection is lost."""
    opus = sphn.OpusStreamWriter(SAMPLE_RATE_HZ)
    try:
        async for frame in frames:
            record.say(frame)
            if packet := opus.append_pcm(frame):
                await socket.send(bytes([Kind.AUDIO]) + packet)
    except ConnectionClosed:
        return  # `_receive_messages` gets the same error, and records the reason


async def _receive_messages(
    socket: ClientConnection,
    record: TalkRecord,
    on_event: Callable[[dict[str, Any]], None],
    on_sound: Callable[[Samples], None],
    awaits_change: bool,
) -> None:
    """Records the server's audio, text and events, and passes audio and events on, until the connection ends.

    Other messages are ignored. A lost connection is recorded as the end of the conversation.

    Args:
        awaits_change: whether a requested change has not been confirmed yet.

    Raises:
        BackendError: the change was rejected or never confirmed, or a message violates the protocol.
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
                    f"The server rejected the prompt: {remove_control_characters(body.decode(errors='replace'))}"
                )
    except ConnectionClosed as error:
        record.end(f"connection lost: {remove_control_characters(str(error))}")
    except ValueError as error:  # neither Opus nor an event
        raise _make_foreign_error(f"A message of the server ({error})") from error
    if awaits_change and not record.ended:
        raise BackendError(
            "The server has not confirmed the prompt, so its answers may ignore it.",
            "Use a server of `kame serve`, or a shorter prompt.",
        )


@asynccontextmanager
async def _connect(call: ServerCall) -> AsyncIterator[ClientConnection]:
    """Context manager that opens a web socket to a server, and yields it when the server is ready.

    Raises:
        ConfigError: the URL is not that of a server.
        BackendError: no server answers, it rejects the call, or it does not speak Moshi's protocol.
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
                f"{call.url} rejected the call: {_find_reason(error)}", _find_remedy(error), status
            ) from error
        except ssl.SSLError as error:
            remedy = "Set SSL_CERT_FILE to the file of its certificate authority."
            raise BackendError(f"{call.url} has no trusted certificate: {error}", remedy) from error
        except (OSError, WebSocketException) as error:
            why = str(error) or type(error).__name__
            raise BackendError(
                f"No server answers at {call.url}: {why}.", "Start one: kame serve CHECKPOINT."
            ) from error
        if first != bytes([Kind.HANDSHAKE]):
            raise _make_foreign_error(call.url)
        yield socket


def _make_foreign_error(what: str) -> BackendError:
    """Makes the error for a server or a message that does not follow Moshi's protocol."""
    return BackendError(f"{what} does not speak Moshi's protocol.", "Is it the server's own URL?")


def _find_reason(error: InvalidStatus) -> str:
    """Returns the server's reason with the HTTP status; only the status if the response has no reason in JSON."""
    status = f"HTTP {error.response.status_code}"
    try:
        reason = json.loads(error.response.body or b"")["error"]
    except (ValueError, KeyError, TypeError):
        return f"{status}."
    message = str(reason.get("message", reason) if isinstance(reason, dict) else reason)
    return f"{remove_control_characters(message)} ({status})"


def _find_remedy(error: InvalidStatus) -> str:
    """Returns what a caller can do about an HTTP error; empty for others than the usual ones."""
    return {
        401: f"Set {TOKEN_ENV} to its access token.",
        403: "Ask its operator for access.",
        404: "Is it the server's own URL?",
        503: "Try again later.",
    }.get(error.response.status_code, "")
