"""What one session answers with: the back-end's oracle for the front-end, or the cascade in its place."""

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
from kame_model.serve.oracle.prompts import Instructions, text_of
from kame_model.serve.oracle.requests import Emit, RequestCounts, Requests
from kame_model.serve.oracle.routing import Choice, Router
from kame_model.serve.oracle.writer import OracleWriter
from kame_model.serve.parts import Parts
from kame_model.serve.session.conversation import Conversation
from kame_model.serve.voice.monologue import Monologue
from kame_model.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Shared:
    """What all sessions have in common; nothing of a caller is in it.

    Attributes:
        tokenizer: of the front-end; None: there is no front-end, and no mode but cascade.
        requests: what became of all that chat models were asked; only counts.
        admit_to_device: lets one more session of mode cascade go to the device, or raises Refused.
        voice: how users hear the front-end; `synthesised` takes the parts' speaker.
    """

    config: ServeConfig
    parts: Parts
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
        emit: takes what happens: kind and data of a `SessionEvent`.

    Attributes:
        mode: tandem, direct or cascade, now.
        choice: the chat model, now.
    """

    def __init__(self, shared: Shared, clock_s: Callable[[], float], emit: Emit) -> None:
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
        """What is so now, as events tell it."""
        return {"mode": self.mode, "back_end": self.choice.own, "model": self.choice.model}

    def change(
        self,
        mode: Mode | None,
        back_end: BackendName | None,
        prompt: str | Instructions | None,
        model: str | None = None,
    ) -> None:
        """As `Session.change`.

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
            raise ConfigError(f"This server has no checkpoint for mode {mode}.", "Choose cascade, or give it one.")
        self._check_prompt("" if prompt is None else text_of(prompt).strip())
        if self.mode == "cascade" and mode not in (None, "cascade"):
            self._admit_to_device()
        if self.choice.use(back_end, prompt, model):
            self._cycle.changed()
        if mode is not None and mode != self.mode:
            self._give_up()
            if self._monologue is not None and mode == "cascade":
                self._monologue.reset()
            self.mode = mode

    @property
    def is_asking(self) -> bool:
        """Whether an answer is asked for, on its way from the chat model into the session, or not yet sound."""
        return (
            self._cycle.is_asking
            or (self._cascade is not None and self._cascade.is_answering)
            or (self._monologue is not None and self._monologue.is_behind)
        )

    def on_heard(self, heard: Heard) -> None:
        """More of the user's turn.

        A recogniser may be late, and its last words on a turn come when the user speaks again: the cascade then answers
        both turns when the second one's have come, and talks over nobody.
        """
        self._conversation.user_says(heard.text, heard.is_final)
        if self.mode == "tandem":
            self._cycle.on_heard(heard.text, heard.is_final)
        elif self._cascade is not None and self.mode == "cascade" and heard.is_final and not self._is_user_speaking:
            self._cascade.on_turn_end(heard.text)

    def on_turn(self, turn: Literal["started", "stopped"]) -> None:
        """The user begins to speak, or has ended a turn, of which the last words may still come."""
        self._is_user_speaking = turn == "started"
        if self._cascade is not None and self._is_user_speaking:
            self._cascade.on_speech_started()
        if self._monologue is not None and self._is_user_speaking:
            self._monologue.on_speech_started()
        elif self._monologue is not None:
            self._monologue.on_speech_stopped()

    def take_oracle(self) -> int:
        """The oracle's id for the front-end's next input position."""
        return self._queue.pop() if self.mode == "tandem" else PADDING_ID

    def take_frame(self) -> tuple[Samples, str] | None:
        """80 ms of the cascade and the words that begin in it; None in the other modes."""
        return self._cascade.take_frame() if self.mode == "cascade" and self._cascade is not None else None

    def speak(self, own: Samples, text: str) -> tuple[Samples, str]:
        """What is said while the front-end gives a frame: its own sound and text, or its text in another voice.

        Args:
            own, text: the front-end's.
        """
        if self._monologue is None:
            return own, text
        self._monologue.write(text)
        return self._monologue.take_frame()

    def on_said(self, text: str) -> None:
        """A piece of what has been said to the user, for the history."""
        self._conversation.assistant_says(text)

    def reset(self) -> None:
        """Gives up what is asked and forgets what was said; mode, back-end, model and prompt stay."""
        self._give_up()
        if self._monologue is not None:
            self._monologue.reset()
        self._conversation.reset()
        self._is_user_speaking = False

    def list_tasks(self) -> list[Coroutine[Any, Any, None]]:
        """What has to run as long as the session does."""
        return [each.run() for each in (self._cycle, self._cascade, self._monologue) if each is not None]

    async def aclose(self) -> None:
        """As `reset`, and waits until every connection is closed."""
        self.reset()
        for each in (self._cycle, self._cascade, self._monologue):
            if each is not None:
                await each.aclose()

    def _create_writer(self, is_held: bool) -> OracleWriter:
        assert self._tokenizer is not None  # there is no mode tandem without it
        return OracleWriter(self._queue, self._tokenizer, self._max_words, is_held=is_held)

    def _check_prompt(self, text: str) -> None:
        if self._has_locked_prompts and text:
            raise ConfigError(
                "The prompts of this server are locked by its host.", "Talk without a prompt or instructions."
            )
        if len(text) > self._max_instruction_characters:
            raise ConfigError(
                f"The instructions have {len(text)} characters.",
                f"{self._max_instruction_characters} are taken at most (limits.max_instruction_characters).",
            )

    def _give_up(self) -> None:
        self._cycle.reset()
        self._queue.reset()
        if self._cascade is not None:
            self._cascade.reset()
