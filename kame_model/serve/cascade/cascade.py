"""The mode without a front-end: recogniser, chat model and text-to-speech in sequence.

When the user's turn has ended, the chat model is asked; each sentence of its answer is spoken as soon as it is written,
while the next ones are being written and synthesised. When the user begins to speak, the audio stops and the rest of
the answer is cancelled. The session does speech recognition and turn detection, as in the other modes.
"""

import asyncio
from contextlib import suppress

from backends.engine import Samples
from backends.tts.protocol import SpeechRefused
from data_schemas.errors import AnswerCut, UnexpectedThought
from kame_model.serve.cascade.sentences import SentenceSplitter
from kame_model.serve.oracle.requests import BackEndAnswer, Requests
from kame_model.serve.session.conversation import Conversation
from kame_model.serve.voice.interruptible import InterruptibleWork
from kame_model.serve.voice.speaker import SENTENCE_PAUSE_S, SharedSpeaker, SoundQueue


class Cascade:
    """One session's cascade. All methods are called on the event loop's thread.

    The session adds to the conversation what is heard, and what is said as `take_frame` returns it: the history
    contains an interrupted answer as far as it was spoken.

    Args:
        requests: sends the requests. An answer has a name of its own ("cascade-1").
        conversation: of the session.
        speaker: the voice; shared.
    """

    def __init__(self, requests: Requests, conversation: Conversation, speaker: SharedSpeaker) -> None:
        self._requests, self._conversation, self._speaker = requests, conversation, speaker
        self._sound = SoundQueue()
        self._answering = InterruptibleWork(self._answer)
        self._n_asked = 0

    def on_speech_started(self) -> None:
        """Handles the start of the user's speech: the audio fades out within a frame, and the answer is cancelled."""
        self._answering.cancel()
        self._sound.cut()

    def on_turn_end(self, text: str) -> None:
        """Handles the end of the user's turn, whose text is in the conversation.

        The turn is answered. A turn without words was noise and does not stop the previous answer; if that was
        cancelled before any of its words was spoken, it is requested again.
        """
        if text.strip():
            self.on_speech_started()
        if self._conversation.awaits_answer and not self.is_answering:
            self._answering.start()

    @property
    def is_answering(self) -> bool:
        """Whether an answer is requested, written or synthesised; False once all its audio waits to be played."""
        return self._answering.is_busy

    def take_frame(self) -> tuple[Samples, str]:
        """Returns the next 80 ms of audio, float32[1920], and the words that begin in it, each after a space."""
        return self._sound.take_frame()

    async def run(self) -> None:
        """Answers the turns that `on_turn_end` accepts, one after the other, until it is cancelled.

        Errors of the back-ends (`KameError`, `TimeoutError`) are reported as events, and the next turn is answered; any
        other exception is a bug and is raised.
        """
        await self._answering.run()

    def reset(self) -> None:
        """Cancels the answer and discards its remaining audio."""
        self._answering.cancel()
        self._sound.clear()

    async def aclose(self) -> None:
        """Resets, and waits until the chat model's connection is closed."""
        self.reset()
        await self._answering.aclose()

    async def _answer(self) -> None:
        """Requests an answer to the user's turn and speaks it; audio of an answer that was a thought is discarded."""
        self._n_asked += 1
        failure = await self._requests.ask(f"cascade-{self._n_asked}", self._conversation.heard, self._speak_sentences)
        if isinstance(failure, UnexpectedThought):
            self._sound.clear()  # the waiting audio was thought

    async def _speak_sentences(self, answer: BackEndAnswer) -> int:
        """Speaks an answer sentence by sentence while it is being written; a sentence that cannot be said is skipped.

        Returns:
            The number of pieces in which it arrived: most servers send one per token.

        Raises:
            BackendError: the text-to-speech engine does not work.
            KameError, TimeoutError: what `read_answer` raises, except for AnswerCut: what was written is spoken.
        """
        sentences: asyncio.Queue[str | None] = asyncio.Queue()
        writing = asyncio.create_task(_queue_sentences(answer, sentences))
        try:
            while (sentence := await sentences.get()) is not None:
                try:
                    await self._sound.put(await self._speaker.say(sentence), SENTENCE_PAUSE_S)
                except SpeechRefused as refusal:  # the other sentences are still spoken
                    self._requests.report_skipped_sentence(answer, refusal)
            return await writing
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)


async def _queue_sentences(answer: BackEndAnswer, sentences: asyncio.Queue[str | None]) -> int:
    """Queues and reports the sentences of an answer as they come; returns the number of its pieces.

    None is queued at the end, also after an error.

    Raises:
        UnexpectedThought: the answer was a thought; its sentences that still waited have been removed.
        KameError, TimeoutError: what else `read_answer` raises, except for AnswerCut, which ends the answer normally.
    """
    parted, n_pieces = SentenceSplitter(), 0

    def write_sentence(sentence: str) -> None:
        answer.report_words(sentence)
        sentences.put_nowait(sentence)

    try:
        with suppress(AnswerCut):  # what was written is spoken
            async for piece in answer.pieces:
                n_pieces += 1
                for sentence in parted.add(piece):
                    write_sentence(sentence)
        if rest := parted.take_rest():
            write_sentence(rest)
    except UnexpectedThought:
        while not sentences.empty():  # thoughts, too, and not passed to the voice yet
            sentences.get_nowait()
        raise
    finally:
        sentences.put_nowait(None)
    return n_pieces
