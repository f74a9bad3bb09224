"""What the sessions of a server have in common, and what each is begun with."""

from collections.abc import Callable
from dataclasses import dataclass

from data_schemas.config.serving import BackendName, Mode, ServeConfig
from kame_model.serve.cascade.speaker import Speaker
from kame_model.serve.oracle.requests import RequestCounts
from kame_model.serve.oracle.routing import Router
from kame_model.serve.parts import Parts
from kame_model.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Shared:
    """What all sessions have in common; nothing of a caller is in it.

    Attributes:
        speaker: the cascade's voice; None: this server has no such mode.
        requests: what became of all that chat models were asked; only counts.
        admit_to_device: lets one more session of mode cascade go to the device, or raises Refused.
    """

    config: ServeConfig
    parts: Parts
    tokenizer: Tokenizer
    router: Router
    speaker: Speaker | None
    requests: RequestCounts
    admit_to_device: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who begins a session, and with what; see `KameServer.open_session`.

    Attributes:
        is_recorded: the caller has been told, and agrees.
    """

    session_id: str
    address: str
    mode: Mode
    back_end: BackendName
    model: str | None = None
    prompt: str | None = None
    is_recorded: bool = False
