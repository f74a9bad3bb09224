"""The mode without a front-end: recogniser, chat model and text-to-speech, one turn after the other.

When the user's turn has ended the chat model is asked; each sentence of its answer is said as soon as it is written,
while the next ones are being written and synthesised. When the user begins to speak, what is being said falls silent
and the rest is given up. Who hears and who tells turns apart is the session's affair, as in the other modes.
"""

import asyncio
from contextlib import suppress

from backends.engine import Samples
from backends.tts.protocol import SpeechRefused
from data_schemas.errors import AnswerCut, UnexpectedThought
from kame_model.serve.cascade.sentences import Sentences
from kame_model.serve.oracle.requests import Answer, Requests
from kame_model.serve.session.conversation import Conversation
from kame_model.serve.voice.interruptible import InterruptibleWork
from kame_model.serve.voice.speaker import SENTENCE_PAUSE_S, SentenceSpeaker, SoundQueue


class Cascade:
    """One session's cascade. All methods are called on the event loop's thread.

    The session tells the conversation what is heard, and what was said as it comes out of `take_frame`: an answer that
    was interrupted stands in the history as far as it was said.

    Args:
        requests: by which it asks. An answer's number is a text of its own ("cascade-1").
        conversation: of the session.
        speaker: the voice; shared.
    """

    def __init__(self, requests: Requests, conversation: Conversation, speaker: SentenceSpeaker) -> None:
        self._requests, self._conversation, self._speaker = requests, conversation, speaker
        self._sound = SoundQueue()
        self._answering = InterruptibleWork(self._answer)
        self._n_asked = 0

    def on_speech_started(self) -> None:
        """The user speaks: what is being said fades out within the next frame, and its answer is given up."""
        self._answering.give_up()
        self._sound.cut()

    def on_turn_end(self, text: str) -> None:
        """The user's turn has ended, with this text, which the conversation has heard.

        It is answered, and one without words leaves the answer before it as it is: it was a noise. Where that answer
        has been given up before a word of it was said, it is asked for again.
        """
        if text.strip():
            self.on_speech_started()
        if self._conversation.awaits_answer and not self.is_answering:
            self._answering.start()

    @property
    def is_answering(self) -> bool:
        """Whether an answer is asked for or written, or a part of it is not in the voice's hands yet."""
        return self._answering.is_busy

    def take_frame(self) -> tuple[Samples, str]:
        """80 ms of what is said, float32[1920], and the words that begin in it, each after a space."""
        return self._sound.take_frame()

    async def run(self) -> None:
        """Answers turn after turn, until it is cancelled; a fault of ours is raised."""
        await self._answering.run()

    def reset(self) -> None:
        """Gives up the answer and forgets what was to be said."""
        self._answering.give_up()
        self._sound.clear()

    async def aclose(self) -> None:
        """As `reset`, and waits until the chat model's connection is closed."""
        self.reset()
        await self._answering.aclose()

    async def _answer(self) -> None:
        self._n_asked += 1
        failure = await self._requests.ask(f"cascade-{self._n_asked}", self._conversation.heard, self._speak_sentences)
        if isinstance(failure, UnexpectedThought):
            self._sound.clear()  # what waits there was thought

    async def _speak_sentences(self, answer: Answer) -> int:
        """Has an answer said sentence by sentence while it is being written.

        Returns:
            The pieces in which it came: most servers send a token in each.
        """
        sentences: asyncio.Queue[str | None] = asyncio.Queue()
        writing = asyncio.create_task(_write(answer, sentences))
        try:
            while (sentence := await sentences.get()) is not None:
                try:
                    await self._sound.put(await self._speaker.say(sentence), SENTENCE_PAUSE_S)
                except SpeechRefused as refusal:  # the others are said all the same
                    self._requests.tell_left_out(answer, refusal)
            return await writing
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)


async def _write(answer: Answer, sentences: asyncio.Queue[str | None]) -> int:
    """Puts each sentence of an answer as it is written, and None at its end, however it ends; how many pieces came."""
    parted, n_pieces = Sentences(), 0

    def write_sentence(sentence: str) -> None:
        answer.tell(sentence)
        sentences.put_nowait(sentence)

    try:
        with suppress(AnswerCut):  # what was written is said
            async for piece in answer.pieces:
                n_pieces += 1
                for sentence in parted.add(piece):
                    write_sentence(sentence)
        if rest := parted.rest():
            write_sentence(rest)
    except UnexpectedThought:
        while not sentences.empty():  # thought, too, and not yet in the voice's hands
            sentences.get_nowait()
        raise
    finally:
        sentences.put_nowait(None)
    return n_pieces
