"""What a realtime client may say of its session: what is so already, and the little that can be changed."""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from pydantic import Field, ValidationError

from data_schemas.config import Config
from data_schemas.config.serving import ListenerConfig
from data_schemas.units import FRAME_S
from kame_model.serve.ears import TurnTaking
from kame_model.serve.session import Session
from kame_model.serve.web.changes import Changes
from kame_model.serve.web.realtime_events import AUDIO_FORMAT, Event, Fault

VOICE = "kame"
"""The front-end has the one voice it was trained with."""
_Form = TypeVar("_Form", bound=Config)
_INSTRUCTIONS, _MODEL = "session.instructions", "session.model"
_TRANSCRIPTION = "session.audio.input.transcription"
_TURNS = "session.audio.input.turn_detection"
_CHANGES = {_INSTRUCTIONS: "prompt", _MODEL: "back_end"}


class TurnWishes(Config):
    """What a client may say of turns (openai/types/realtime/realtime_audio_input_turn_detection.py, ServerVad)."""

    threshold: float = Field(gt=0, lt=1, description="Probability of speech above which somebody speaks.")
    prefix_padding_ms: int = Field(ge=0, le=2000, description="Sound before a turn that belongs to it; whole frames.")
    silence_duration_ms: int = Field(ge=100, le=5000, description="Silence after which a turn has ended.")
    interrupt_response: bool = Field(description="Whether no more of a response is sent once the user speaks.")

    @classmethod
    def of(cls, turns: TurnTaking, interrupts: bool) -> "TurnWishes":
        """What is so."""
        return cls(
            threshold=turns.speech_probability,
            prefix_padding_ms=round(turns.before_s * 1000),
            silence_duration_ms=round(turns.turn_end_silence_s * 1000),
            interrupt_response=interrupts,
        )


class Wishes(NamedTuple):
    """Values for `Changes` by their names, whether the user's words are told, and how turns are told apart."""

    changes: dict[str, Any]
    wants_transcripts: bool
    turns: TurnWishes


class RealtimeConfig:
    """A session as the protocol describes it.

    Args:
        session: the conversation.
        listener: how the user is heard.
        instructions: that the session began with.

    Attributes:
        instructions: of the client, now.
        wants_transcripts: whether the client is told what the user says.
        interrupts: whether no more of a response is sent once the user speaks.
    """

    def __init__(self, session: Session, listener: ListenerConfig, instructions: str) -> None:
        self._session = session
        self._listener = listener
        self.instructions = instructions
        self.wants_transcripts = True
        self.interrupts = False  # the model hears the user while it speaks, and decides

    def shown(self) -> Event:
        """The whole configuration, as it is in force; `instructions` are empty where the back-end's own are."""
        return {
            "type": "realtime",
            "object": "realtime.session",
            "id": self._session.id,
            "model": self._session.back_end,
            "instructions": self.instructions,
            "output_modalities": ["audio"],
            "max_output_tokens": "inf",
            "tools": [],
            "tool_choice": "auto",
            "audio": {
                "input": {
                    "format": AUDIO_FORMAT,
                    "transcription": self._transcription() if self.wants_transcripts else None,
                    "turn_detection": {
                        "type": "server_vad",
                        **self._turns().model_dump(),
                        "create_response": True,
                    },
                },
                "output": {"format": AUDIO_FORMAT, "voice": VOICE, "speed": 1.0},
            },
        }

    def wishes(self, wanted: object) -> Wishes:
        """What a `session.update` would change; it is checked whole, and nothing is changed.

        A client may say again what is so; what else cannot be had is refused by its name, and the rest of the update
        with it, as OpenAI's own server does (github.com/livekit/agents/issues/1183: one tool too long, and the
        instructions beside it are not taken).

        Raises:
            Fault: something cannot be had.
        """
        if not isinstance(wanted, dict):
            raise Fault("invalid_type", "session is an object.", "session")
        changes: dict[str, Any] = {}
        turns = self._turns().model_dump()
        wants_transcripts = self.wants_transcripts
        for param, value in _differences(wanted, self.shown(), "session"):
            if param in _CHANGES:
                changes[_CHANGES[param]] = value
            elif param.startswith(f"{_TURNS}.") and param.removeprefix(f"{_TURNS}.") in turns:
                turns[param.removeprefix(f"{_TURNS}.")] = value
            elif param == _TRANSCRIPTION and (value is None or _is_same(value, self._transcription())):
                wants_transcripts = value is not None
            else:
                raise Fault("not_supported", _WHY.get(param, "This server cannot do that."), param)
        return Wishes(changes, wants_transcripts, _read(TurnWishes, turns, _TURNS))

    def take_turns(self, wished: TurnWishes) -> None:
        """Tells turns apart as is wished; `prefix_padding_ms` in whole frames."""
        if wished == self._turns():
            return
        self.interrupts = wished.interrupt_response
        before_s = round(wished.prefix_padding_ms / 1000 / FRAME_S) * FRAME_S
        self._session.take_turns(TurnTaking(wished.threshold, wished.silence_duration_ms / 1000, before_s))

    def check_response(self, wanted: object) -> Any:
        """Looks at what a `response.create` asks for; its metadata.

        Raises:
            Fault: something cannot be had for one response alone.
        """
        if wanted is None:
            return None
        if not isinstance(wanted, dict):
            raise Fault("invalid_type", "response is an object.", "response")
        metadata = wanted.get("metadata")
        if not _is_metadata(metadata):
            raise Fault("invalid_value", "metadata is up to 16 short strings by name.", "response.metadata")
        here = {**self.shown(), "conversation": "auto", "metadata": metadata}
        for param, _ in _differences(wanted, here, "response"):
            raise Fault("not_supported", "Responses are as the session is; session.update changes it.", param)
        return metadata

    def _turns(self) -> TurnWishes:
        return TurnWishes.of(self._session.turn_taking, self.interrupts)

    def _transcription(self) -> Event:
        return {"model": self._listener.engine}


def changes_of(wanted: object, param: str) -> Changes:
    """Changes from what a client sent.

    Raises:
        Fault: it is of the wrong form.
    """
    return _read(Changes, wanted, param)


def _read(form: type[_Form], wanted: object, param: str) -> _Form:
    try:
        return form.model_validate(wanted)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(each) for each in (param, *first["loc"]))
        told = f"{first['msg']}; there are {', '.join(form.model_fields)}."
        raise Fault("invalid_value", told, where[:256]) from error


def _differences(wanted: Event, here: Event, param: str) -> Iterator[tuple[str, Any]]:
    """Name and value of all that is not so already; null is the same as nothing."""
    for name, value in wanted.items():
        place, now = f"{param}.{name}"[:256], here.get(name)
        if isinstance(value, dict) and isinstance(now, dict):
            yield from _differences(value, now, place)
        elif value != now:
            yield place, value


def _is_metadata(wanted: object) -> bool:
    """As openai/types/shared/metadata.py has it: 16 pairs, names of 64 characters and values of 512 at most."""
    return wanted is None or (
        isinstance(wanted, dict)
        and len(wanted) <= 16
        and all(isinstance(value, str) and len(name) <= 64 and len(value) <= 512 for name, value in wanted.items())
    )


def _is_same(wanted: object, here: Event) -> bool:
    return isinstance(wanted, dict) and not list(_differences(wanted, here, ""))


_WHY = {
    "session.type": "Only sessions of type realtime are held here.",
    "session.tools": "There are no tools here: the chat model behind the voice only writes.",
    "session.output_modalities": "The model speaks; its words come as the transcript.",
    _TURNS: "Turns are found by the server; the model hears everything at once.",
    "session.audio.input.transcription.model": "The server has one recogniser; leave `model` out.",
    "session.audio.output.voice": "The front-end has the one voice it was trained with.",
}
