"""Answering: what one session answers with, either oracles for the front-end or the cascade."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

from backends.engine import Samples
from backends.listener.protocol import Heard
from data_schemas.config.serving import BackendName, Mode, ServeConfig, Voice
from data_schemas.errors import ConfigError
from kame_model.frames.ids import PADDING_ID
from kame_model.frames.oracle_stream import OracleQueue
from kame_model.serve.cascade.cascade import Cascade
from kame_model.serve.oracle.cycle import BackEndCycle
from kame_model.serve.oracle.prompts import Instructions, get_prompt_text
from kame_model.serve.oracle.requests import Emit, RequestCounts, Requests
from kame_model.serve.oracle.routing import Choice, Router
from kame_model.serve.oracle.writer import OracleWriter
from kame_model.serve.parts import ServerParts
from kame_model.serve.session.conversation import Conversation
from kame_model.serve.voice.monologue import Monologue
from kame_model.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class SharedContext:
    """What all sessions share; it contains nothing of a caller.

    Attributes:
        tokenizer: of the front-end, or None if there is no front-end and cascade is the only mode.
        requests: counts of the outcomes of requests to chat models.
        admit_to_device: admits one more session of mode cascade to the device, or raises Refused.
        voice: how users hear the front-end; `synthesised` uses the parts' speaker.
    """

    config: ServeConfig
    parts: ServerParts
    tokenizer: Tokenizer | None
    router: Router
    requests: RequestCounts
    admit_to_device: Callable[[], None]
    voice: Voice


class Answering:
    """One session's history, requests, oracle and cascade. All methods are called on the event loop's thread.

    Args:
        shared: of the server.
        clock_s: the session's clock, seconds.
        emit: receives the kind and data of each `SessionEvent`.

    Attributes:
        mode: the current mode: tandem, direct or cascade.
        choice: the current chat model.
    """

    def __init__(self, shared: SharedContext, clock_s: Callable[[], float], emit: Emit) -> None:
        cycle = shared.config.cycle
        self.mode: Mode = "direct"
        self._admit_to_device = shared.admit_to_device
        self._has_locked_prompts = shared.config.care.prompts == "locked"
        self._max_instruction_characters = shared.config.limits.max_instruction_characters
        tokenizer = self._tokenizer = shared.tokenizer
        self._queue = OracleQueue(PADDING_ID if tokenizer is None else tokenizer.text_card)
        self._conversation = Conversation(cycle.max_history_turns, clock_s)
        self.choice = Choice(shared.parts.back_ends, shared.router)
        self._max_words = cycle.max_words
        requests = partial(
            Requests, self.choice, self._conversation, emit, shared.requests, cycle.first_token_timeout_s
        )
        self._cycle = BackEndCycle(requests(), self._conversation, self._create_writer, cycle)
        self._monologue: Monologue | None = None
        if shared.voice == "synthesised" and shared.parts.speaker is not None:
            self._monologue = Monologue(shared.parts.speaker, emit, shared.requests)
        self._cascade: Cascade | None = None
        if shared.parts.speaker is not None:
            self._cascade = Cascade(requests(is_answer=True), self._conversation, shared.parts.speaker)
        self._is_user_speaking = False

    def get_choices(self) -> dict[str, str]:
        """Returns mode, back-end and model, as events contain them."""
        return {"mode": self.mode, "back_end": self.choice.own, "model": self.choice.model}

    def change(
        self,
        mode: Mode | None,
        back_end: BackendName | None,
        prompt: str | Instructions | None,
        model: str | None = None,
    ) -> None:
        """Changes the session as `Session.change` does; another mode cancels all answers.

        Raises:
            ConfigError: there is no such back-end, mode, prompt or model, the prompts are locked, or the instructions
                are too long; nothing has changed.
            Refused: the device has no time for the mode; nothing has changed.
        """
        if mode is not None and mode not in get_args(Mode):
            raise ConfigError(f"There is no mode {mode!r}.", f"Choose one of: {', '.join(get_args(Mode))}.")
        if mode == "cascade" and self._cascade is None:
            raise ConfigError("This server has no text-to-speech for mode cascade.", "Choose tandem or direct.")
        if mode not in (None, "cascade") and self._tokenizer is None:
            raise ConfigError(f"This server has no checkpoint for mode {mode}.", "Choose mode cascade.")
        self._check_prompt("" if prompt is None else get_prompt_text(prompt).strip())
        if self.mode == "cascade" and mode not in (None, "cascade"):
            self._admit_to_device()
        if self.choice.use(back_end, prompt, model):
            self._cycle.restart_request()
        if mode is not None and mode != self.mode:
            self._cancel_answers()
            if self._monologue is not None and mode == "cascade":
                self._monologue.reset()
            self.mode = mode

    @property
    def is_asking(self) -> bool:
        """Whether an answer is requested, is arriving from the chat model, or has not been synthesised yet."""
        return (
            self._cycle.is_asking
            or (self._cascade is not None and self._cascade.is_answering)
            or (self._monologue is not None and self._monologue.is_behind)
        )

    def on_heard(self, heard: Heard) -> None:
        """Handles more of the user's turn, which enters the history.

        In mode tandem oracles are requested for it, in mode cascade an answer once it is final, in mode direct nothing.

        A recogniser may be late, and its last words on a turn may arrive when the user speaks again: the cascade then
        answers both turns when the words of the second one have arrived, and does not interrupt the user.
        """
        self._conversation.add_user_text(heard.text, heard.is_final)
        if self.mode == "tandem":
            self._cycle.on_heard(heard.text, heard.is_final)
        elif self._cascade is not None and self.mode == "cascade" and heard.is_final and not self._is_user_speaking:
            self._cascade.on_turn_end(heard.text)

    def on_turn(self, turn: Literal["started", "stopped"]) -> None:
        """Handles the start of the user's turn, which interrupts text-to-speech, or its end.

        The last words of an ended turn may still arrive.
        """
        self._is_user_speaking = turn == "started"
        if self._cascade is not None and self._is_user_speaking:
            self._cascade.on_speech_started()
        if self._monologue is not None and self._is_user_speaking:
            self._monologue.on_speech_started()
        elif self._monologue is not None:
            self._monologue.on_speech_stopped()

    def take_oracle(self) -> int:
        """Returns the oracle's token id for the front-end's next input position: padding outside of mode tandem."""
        return self._queue.pop() if self.mode == "tandem" else PADDING_ID

    def take_frame(self) -> tuple[Samples, str] | None:
        """Returns the cascade's next 80 ms and the words that begin in it, or None in the other modes."""
        return self._cascade.take_frame() if self.mode == "cascade" and self._cascade is not None else None

    def speak(self, own: Samples, text: str) -> tuple[Samples, str]:
        """Returns the audio (80 ms) and the text that the user hears when the front-end has said a frame.

        They are those of the front-end, or with voice `synthesised` those of text-to-speech, which says its text later.

        Args:
            own: the front-end's audio of the frame.
            text: the front-end's text of the frame.
        """
        if self._monologue is None:
            return own, text
        self._monologue.write(text)
        return self._monologue.take_frame()

    def on_said(self, text: str) -> None:
        """Adds text that has been said to the user to the history."""
        self._conversation.add_assistant_text(text)

    def reset(self) -> None:
        """Cancels requests and clears the history; mode, back-end, model and prompt stay."""
        self._cancel_answers()
        if self._monologue is not None:
            self._monologue.reset()
        self._conversation.reset()
        self._is_user_speaking = False

    def list_tasks(self) -> list[Coroutine[Any, Any, None]]:
        """Returns the coroutines that run as long as the session does."""
        return [each.run() for each in (self._cycle, self._cascade, self._monologue) if each is not None]

    async def aclose(self) -> None:
        """Resets, and waits until every connection is closed."""
        self.reset()
        for each in (self._cycle, self._cascade, self._monologue):
            if each is not None:
                await each.aclose()

    def _create_writer(self, is_held: bool) -> OracleWriter:
        """Starts an oracle in the queue, and returns its writer."""
        assert self._tokenizer is not None  # there is no mode tandem without it
        return OracleWriter(self._queue, self._tokenizer, self._max_words, is_held=is_held)

    def _check_prompt(self, text: str) -> None:
        """Checks the text of a prompt or of instructions.

        Raises:
            ConfigError: it is too long, or not empty although the prompts are locked.
        """
        if self._has_locked_prompts and text:
            raise ConfigError(
                "The prompts of this server are locked by its operator.", "Talk without a prompt or instructions."
            )
        if len(text) > self._max_instruction_characters:
            raise ConfigError(
                f"The instructions have {len(text)} characters.",
                f"At most {self._max_instruction_characters} are allowed (limits.max_instruction_characters).",
            )

    def _cancel_answers(self) -> None:
        """Cancels all requests, and discards the waiting oracle and the cascade's audio."""
        self._cycle.reset()
        self._queue.reset()
        if self._cascade is not None:
            self._cascade.reset()
