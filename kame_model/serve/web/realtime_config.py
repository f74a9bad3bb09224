"""What a realtime client may say of its session: what is so already, and the little that can be changed."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import ValidationError

from data_schemas.config.serving import ListenerConfig
from kame_model.serve.session import Session
from kame_model.serve.web.changes import Changes
from kame_model.serve.web.realtime_events import AUDIO_FORMAT, Event, Fault

VOICE = "kame"
"""The front-end has the one voice it was trained with."""
_INSTRUCTIONS, _MODEL = "session.instructions", "session.model"
_TRANSCRIPTION = "session.audio.input.transcription"
_CHANGES = {_INSTRUCTIONS: "prompt", _MODEL: "back_end"}


class Wishes(NamedTuple):
    """Values for `Changes` by their names, and whether the user's words are told."""

    changes: dict[str, Any]
    wants_transcripts: bool


class RealtimeConfig:
    """A session as the protocol describes it.

    Args:
        session: the conversation.
        listener: how the user is heard.
        instructions: that the session began with.

    Attributes:
        instructions: of the client, now.
        wants_transcripts: whether the client is told what the user says.
    """

    def __init__(self, session: Session, listener: ListenerConfig, instructions: str) -> None:
        self._session = session
        self._listener = listener
        self.instructions = instructions
        self.wants_transcripts = True

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
                        "threshold": self._listener.speech_probability,
                        "silence_duration_ms": round(self._listener.turn_end_silence_s * 1000),
                        "create_response": True,
                        "interrupt_response": False,  # the model hears the user while it speaks, and decides
                    },
                },
                "output": {"format": AUDIO_FORMAT, "voice": VOICE, "speed": 1.0},
            },
        }

    def wishes(self, wanted: object) -> Wishes:
        """What a `session.update` would change; it is checked whole, and nothing is changed.

        A client may say again what is so; what else cannot be had is refused by its name.

        Raises:
            Fault: something cannot be had.
        """
        if not isinstance(wanted, dict):
            raise Fault("invalid_type", "session is an object.", "session")
        changes: dict[str, Any] = {}
        wants_transcripts = self.wants_transcripts
        for param, value in _differences(wanted, self.shown(), "session"):
            if param in _CHANGES:
                changes[_CHANGES[param]] = value
            elif param == _TRANSCRIPTION and (value is None or _is_same(value, self._transcription())):
                wants_transcripts = value is not None
            else:
                raise Fault("not_supported", _WHY.get(param, "This server cannot do that."), param)
        return Wishes(changes, wants_transcripts)

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

    def _transcription(self) -> Event:
        return {"model": self._listener.engine}


def changes_of(wanted: object, param: str) -> Changes:
    """Changes from what a client sent.

    Raises:
        Fault: it is of the wrong form.
    """
    try:
        return Changes.model_validate(wanted)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(each) for each in (param, *first["loc"]))
        raise Fault("invalid_value", f"{first['msg']}; it is {Changes.hint()}.", where) from error


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
    "session.audio.input.turn_detection": "Turns are found by the server; the model hears everything at once.",
    "session.audio.input.transcription.model": "The server has one recogniser; leave `model` out.",
    "session.audio.output.voice": "The front-end has the one voice it was trained with.",
}
