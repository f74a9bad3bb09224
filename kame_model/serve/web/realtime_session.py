"""Session settings of the realtime protocol: `session.update`, and what it can and cannot change here.

Clients send whole sessions, with a voice, a transcriber and a kind of turn detection of OpenAI's, as the default
sessions of openai-agents-js and openai-agents-python do (openaiRealtimeBase.ts, DEFAULT_OPENAI_REALTIME_SESSION_CONFIG;
openai_realtime.py, DEFAULT_MODEL_SETTINGS). A harmless setting that is not supported is therefore reported as a
difference, and only one that a client cannot do without is an error; in both cases the rest of the update is applied.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from pydantic import Field, ValidationError

from data_schemas.config import Config
from data_schemas.config.serving import ServeConfig
from data_schemas.units import FRAME_S
from kame_model.serve.session.hearing import TurnTaking
from kame_model.serve.session.session import Session
from kame_model.serve.web.realtime_events import AUDIO_FORMAT, VOICE, Event, RealtimeError
from kame_model.serve.web.session_changes import Changes

MAX_DIFFERENCES = 32
"""Maximum number of differences reported for one update, as a client may send any number of fields."""
_Form = TypeVar("_Form", bound=Config)
INSTRUCTIONS, _MODEL = "session.instructions", "session.model"
_TRANSCRIPTION = "session.audio.input.transcription"
_TURNS = "session.audio.input.turn_detection"


class TurnDetection(Config):
    """Settings of turn detection (openai/types/realtime/realtime_audio_input_turn_detection.py, ServerVad)."""

    threshold: float = Field(gt=0, lt=1, description="Probability of speech above which somebody speaks.")
    prefix_padding_ms: int = Field(ge=0, le=2000, description="Audio before a turn that belongs to it; whole frames.")
    silence_duration_ms: int = Field(ge=100, le=5000, description="Silence after which a turn has ended.")
    interrupt_response: bool = Field(description="Whether the rest of a response is withheld once the user speaks.")


class SessionUpdate(NamedTuple):
    """The result of a `session.update`.

    Attributes:
        changes: values for `Changes` by name, which are still to be applied.
        differences: of settings that were not applied: `param`, the value that `holds` instead, and the `reason`.
        errors: unsupported settings that a client cannot do without.
    """

    changes: dict[str, Any]
    differences: list[Event]
    errors: list[RealtimeError]


class SessionSettings:
    """A session as the protocol describes it.

    Attributes:
        instructions: the client's, from the start or a later update.
        wants_transcripts: whether the client receives transcripts of the user's speech.
        interrupts: whether the rest of a response is withheld once the user speaks.
    """

    def __init__(self, session: Session, config: ServeConfig, instructions: str) -> None:
        self._session = session
        self._transcription = {"model": config.listener.engine}
        self._back_ends = frozenset(each.name for each in config.back_ends)
        self._echoed: Event = {}
        self.instructions = instructions
        self.wants_transcripts = True
        self.interrupts = False  # the model hears the user while it speaks, and decides

    def describe(self) -> Event:
        """Returns the whole configuration in force; `instructions` are empty if the back-end's own are used."""
        turns = {"type": "server_vad", **self._get_turn_detection().model_dump(), "create_response": True}
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
                    "transcription": self._transcription if self.wants_transcripts else None,
                    "turn_detection": turns,
                },
                "output": {"format": AUDIO_FORMAT, "voice": VOICE, "speed": 1.0},
            },
            **self._echoed,
        }

    def update(self, wanted: object) -> SessionUpdate:
        """Applies a `session.update`, except for instructions and back-end, which are returned as `changes`.

        Each field is handled by itself, so that an unsupported one does not affect the others: OpenAI's own server
        rejects a whole update, and instructions beside a tool with too long a name are lost there
        (github.com/livekit/agents/issues/1183). null means unset and changes nothing, except that it turns off
        transcription, removes an echoed field, and is an error for turn detection, which cannot be turned off.

        Raises:
            RealtimeError: it is not a session; nothing has changed.
        """
        if not isinstance(wanted, dict):
            raise RealtimeError("invalid_type", "session must be an object.", "session")
        update = SessionUpdate({}, [], [])
        turns = self._get_turn_detection().model_dump()
        for param, value, holds in list(_find_differences(_move_former_fields(wanted), self.describe(), "session")):
            name = param.rpartition(".")[2]
            if value is None and param not in (_TRANSCRIPTION, _TURNS, *_ECHOED):
                continue
            if param == _TRANSCRIPTION and value is None:
                self.wants_transcripts = False
            elif param == _TRANSCRIPTION and isinstance(value, dict):
                self.wants_transcripts = True
                for difference in _find_differences(value, self._transcription, param):
                    update.differences.append(_make_difference(*difference))
            elif param == INSTRUCTIONS:
                update.changes["instructions"] = value
            elif param == _MODEL and isinstance(value, str) and value in self._back_ends:
                update.changes["back_end"] = value
            elif param.startswith(f"{_TURNS}.") and name in turns:
                turns[name] = value
            elif param in _ECHOED and _is_small(value):
                self._echo(name, value)
            elif (why := _find_obstacle(param, value, holds)) is not None:
                update.errors.append(RealtimeError("not_supported", why, param))
            else:
                update.differences.append(_make_difference(param, value, holds))
        del update.differences[MAX_DIFFERENCES:]
        try:
            self._apply_turn_detection(_validate(TurnDetection, turns, _TURNS))
        except RealtimeError as error:
            update.errors.append(error)
        return update

    def check_response(self, wanted: object) -> Any:
        """Checks the parameters of a `response.create`; returns its metadata, or None without any.

        Raises:
            RealtimeError: a parameter is not supported for a single response, or the metadata is invalid.
        """
        if wanted is None:
            return None
        if not isinstance(wanted, dict):
            raise RealtimeError("invalid_type", "response must be an object.", "response")
        metadata = wanted.get("metadata")
        if not _is_metadata(metadata):
            raise RealtimeError("invalid_value", "metadata must be up to 16 short strings.", "response.metadata")
        here = {**self.describe(), "conversation": "auto", "metadata": metadata}
        for param, _, _ in _find_differences(wanted, here, "response"):
            raise RealtimeError("not_supported", "Responses use the settings of session.update.", param)
        return metadata

    def _echo(self, name: str, value: Any) -> None:
        """Stores a field that is only echoed; null removes it."""
        if value is None:
            self._echoed.pop(name, None)
        else:
            self._echoed[name] = value

    def _get_turn_detection(self) -> TurnDetection:
        """Returns the session's turn detection as the protocol describes it, with times in milliseconds."""
        turns = self._session.turn_taking
        return TurnDetection(
            threshold=turns.speech_probability,
            prefix_padding_ms=round(turns.before_s * 1000),
            silence_duration_ms=round(turns.turn_end_silence_s * 1000),
            interrupt_response=self.interrupts,
        )

    def _apply_turn_detection(self, wished: TurnDetection) -> None:
        """Changes turn detection, unless nothing differs; `prefix_padding_ms` is rounded to whole frames."""
        if wished == self._get_turn_detection():
            return
        self.interrupts = wished.interrupt_response
        before_s = round(wished.prefix_padding_ms / 1000 / FRAME_S) * FRAME_S
        self._session.set_turn_taking(TurnTaking(wished.threshold, wished.silence_duration_ms / 1000, before_s))


def read_changes(wanted: object, param: str) -> Changes:
    """Validates changes that a client sent.

    Args:
        param: the part of the message that they are from, for the error.

    Raises:
        RealtimeError: they are invalid; its `param` is the first invalid field.
    """
    try:
        return _validate(Changes, wanted, param)
    except RealtimeError as error:
        if error.param == "session.back_end":
            error.param = _MODEL
        raise


def _validate(form: type[_Form], wanted: object, param: str) -> _Form:
    """Returns the values as a `form`.

    Raises:
        RealtimeError: they do not fit; its `param` is the first invalid field, after `param`.
    """
    try:
        return form.model_validate(wanted)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(each) for each in (param, *first["loc"]))
        message = f"{first['msg']}; the fields are {', '.join(form.model_fields)}."
        raise RealtimeError("invalid_value", message, where[:256]) from error


def _move_former_fields(session: Event) -> Event:
    """Moves fields of the protocol's first version (2024) to their present places, in place, and returns the session.

    A field whose present place is set already, or cannot be set, is dropped.
    """
    for name, (*way, last) in _FORMER.items():
        if name not in session:
            continue
        value, place = session.pop(name), session
        for each in way:
            place = place.setdefault(each, {}) if isinstance(place, dict) else None
        if isinstance(place, dict):
            place.setdefault(last, _FORMER_FORMATS.get(value, value) if isinstance(value, str) else value)
    return session


def _find_differences(wanted: Event, here: Event, param: str) -> Iterator[tuple[str, Any, Any]]:
    """Yields path, wanted value and present value of each wanted field that differs, also in nested objects.

    Paths start with `param`. A field that does not exist counts as null.
    """
    for name, value in wanted.items():
        place, now = f"{param}.{name}"[:256], here.get(name)
        if isinstance(value, dict) and isinstance(now, dict):
            yield from _find_differences(value, now, place)
        elif value != now:
            yield place, value, now


def _make_difference(param: str, _: Any, holds: Any) -> Event:
    """Makes the entry of `SessionUpdate.differences` for a field that was not applied; its wanted value is ignored."""
    return {"param": param, "holds": holds, "reason": _WHY.get(param, "This server has no such setting.")}


def _find_obstacle(param: str, value: Any, holds: Any) -> str | None:
    """Returns why a client cannot work with the present value of a field (`holds`), or None if it can."""
    if isinstance(holds, dict) and value is not None:
        return "An object is expected here."
    if param == "session.output_modalities" and isinstance(value, list) and "audio" in value:
        return None
    if param == f"{_TURNS}.create_response" and value is not False:
        return None
    if param.endswith((".format.type", ".format.rate")):
        param = param.rpartition(".")[0]
    return _IMPOSSIBLE.get(param)


def _is_metadata(wanted: object) -> bool:
    """Returns whether this is valid metadata (openai/types/shared/metadata.py): texts with names of at most 64
    characters, or null.
    """
    return wanted is None or (
        isinstance(wanted, dict)
        and _is_small(wanted)
        and all(isinstance(value, str) and len(name) <= 64 for name, value in wanted.items())
    )


def _is_small(value: object, depth: int = 2) -> bool:
    """Returns whether a value may be stored and echoed: null, a boolean, a short text, or at most 16 of those in a list
    or object, which may be nested `depth` deep; numbers may not.
    """
    if isinstance(value, dict | list):
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        return depth > 0 and len(value) <= 16 and all(_is_small(each, depth - 1) for each in parts)
    return value is None or isinstance(value, bool) or (isinstance(value, str) and len(value) <= 512)


_ECHOED = frozenset(
    f"session.{name}" for name in ("tool_choice", "parallel_tool_calls", "tracing", "include", "truncation")
)
"""Fields that are only echoed: there are no tools and traces, and the server manages the history."""

_IMPOSSIBLE = {
    "session.type": "Only sessions of type realtime are supported.",
    "session.tools": "Tools are not supported: the chat model behind the voice only writes.",
    "session.prompt": "OpenAI's stored prompts are not available; put their text into instructions.",
    "session.output_modalities": "The model speaks; its words come as the transcript.",
    "session.audio.input.format": "Audio must be PCM16 at 24 kHz.",
    "session.audio.output.format": "Audio must be PCM16 at 24 kHz.",
    f"{_TURNS}.create_response": "The model hears and speaks all the time; a response begins when it speaks.",
    _TURNS: "The server detects turns; the model hears everything at once.",
}
"""Errors for settings without which a client cannot work as intended."""

_WHY = {
    _MODEL: "There is no back-end of this name; /v1/about lists them.",
    "session.output_modalities": "The model speaks; its words come as the transcript.",
    f"{_TURNS}.type": "Turns end by silence; the server does not analyse what is said.",
    f"{_TRANSCRIPTION}.model": "The server has one recogniser.",
    "session.max_output_tokens": "The length of an answer is a setting of the server's chat model.",
    "session.audio.output.voice": "The server has one voice.",
    "session.audio.output.speed": "The speed of the front-end cannot be changed.",
    "session.audio.input.noise_reduction": "Audio is used without noise reduction.",
}
"""Reasons of differences."""

_FORMER = {
    "modalities": ("output_modalities",),
    "max_response_output_tokens": ("max_output_tokens",),
    "voice": ("audio", "output", "voice"),
    "speed": ("audio", "output", "speed"),
    "output_audio_format": ("audio", "output", "format"),
    "input_audio_format": ("audio", "input", "format"),
    "input_audio_transcription": ("audio", "input", "transcription"),
    "input_audio_noise_reduction": ("audio", "input", "noise_reduction"),
    "turn_detection": ("audio", "input", "turn_detection"),
}
_FORMER_FORMATS: dict[str, Event] = {
    "pcm16": AUDIO_FORMAT,
    "g711_ulaw": {"type": "audio/pcmu"},
    "g711_alaw": {"type": "audio/pcma"},
}
