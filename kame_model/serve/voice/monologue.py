"""The voice `synthesised`: text-to-speech says what a front-end writes, instead of its own audio.

The front-end hears itself as in training, by its own codes; only the user hears another voice. It says each clause as
soon as that is written, about a second behind the text. Events and history contain the words that the user hears, when
they are heard.
"""

import asyncio
from collections import deque
from typing import Final

from backends.engine import Samples
from backends.tts.audio import PAUSE_AFTER_S
from backends.tts.protocol import SpeechRefused
from data_schemas.errors import BackendError
from kame_model.serve.oracle.requests import Emit, RequestCounts
from kame_model.serve.voice.clauses import ClauseSplitter
from kame_model.serve.voice.interruptible import InterruptibleWork
from kame_model.serve.voice.speaker import SharedSpeaker, SoundQueue

DRY_S: Final = 0.5
"""With less audio left than this, a short clause is not delayed for more words: about the time to synthesise it."""

MOST_BEHIND_S: Final = 10.0
"""A clause that was written longer ago is skipped, with an event: so late it answers nothing any more."""


class Monologue:
    """One session's front-end as text-to-speech says it. All methods are called on the event loop's thread.

    Args:
        speaker: the voice; shared.
        emit: receives each clause when it is written, and when its audio is ready or cannot be made (`voice_asked`,
            `voice_done`, `voice_failed`).
        counts: logs the failures.
    """

    def __init__(self, speaker: SharedSpeaker, emit: Emit, counts: RequestCounts) -> None:
        self._speaker, self._emit, self._counts = speaker, emit, counts
        self._clauses, self._sound = ClauseSplitter(), SoundQueue()
        self._written: deque[tuple[float, str]] = deque()  # the time, and the clause
        self._saying = InterruptibleWork(self._say_written)

    @property
    def is_behind(self) -> bool:
        """Whether a written clause has not been synthesised yet."""
        return self._saying.is_busy

    def write(self, piece: str) -> None:
        """Adds the text of the front-end's next frame, mostly empty; a clause that has ended is then synthesised."""
        is_dry = not self.is_behind and self._sound.waiting_s < DRY_S
        if clause := self._clauses.feed(piece, is_dry):
            self._written.append((asyncio.get_running_loop().time(), clause))
            self._emit("voice_asked", {"text": clause})
            self._saying.start()

    def take_frame(self) -> tuple[Samples, str]:
        """Returns the next 80 ms of audio, float32[1920], and the words that begin in it, each after a space."""
        return self._sound.take_frame()

    def on_speech_started(self) -> None:
        """Handles the start of the user's speech: the audio fades out within a frame, and the rest is discarded."""
        self._clauses.abandon()
        self._cancel_clauses()
        self._sound.cut()

    def on_speech_stopped(self) -> None:
        """Handles the end of the user's turn: new text is spoken, even the rest of an interrupted answer."""
        self._clauses.resume()

    async def run(self) -> None:
        """Says what is written until it is cancelled; raises errors of our own code."""
        await self._saying.run()

    def reset(self) -> None:
        """Discards the text and the audio."""
        self._clauses.reset()
        self._cancel_clauses()
        self._sound.clear()

    async def aclose(self) -> None:
        """Resets, and waits until nothing is being said."""
        self.reset()
        await self._saying.aclose()

    def _cancel_clauses(self) -> None:
        """Discards the written clauses, and cancels their synthesis."""
        self._written.clear()
        self._saying.cancel()

    async def _say_written(self) -> None:
        """Synthesises the written clauses, the oldest first; one that fails or is too late becomes an event."""
        while self._written:
            written_s, clause = self._written.popleft()
            left_s = written_s + MOST_BEHIND_S - asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(left_s):
                    spoken = await self._speaker.say(clause)
            except (SpeechRefused, BackendError, TimeoutError) as error:
                self._report_failure(clause, error)
            else:
                await self._sound.put(spoken, PAUSE_AFTER_S.get(clause[-1], 0.0))
                self._emit("voice_done", {"text": clause})

    def _report_failure(self, clause: str, error: Exception) -> None:
        """Logs, and emits as an event, that a clause could not be said."""
        self._counts.log_fault("Text-to-speech", "", error)
        late = f"It was not said within {MOST_BEHIND_S:g} s after it was written."
        reason = late if isinstance(error, TimeoutError) else str(error)
        self._emit("voice_failed", {"text": clause, "reason": reason})
