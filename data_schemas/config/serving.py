"""The server: whom it lets in, what listens, which chat models answer, and what is kept."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from data_schemas.config.base import Config, at_home
from data_schemas.config.chat import ChatConfig
from data_schemas.config.model import SamplingConfig

Mode = Literal["tandem", "direct", "cascade"]
"""tandem: the front-end speaks and hears the back-end's oracle · direct: it speaks alone · cascade: recogniser, chat
model and text-to-speech take turns with the user."""

Voice = Literal["decoded", "synthesised"]
"""How a user hears the front-end: by its own codes, decoded · by its text, said by text-to-speech."""

NO_CHECKPOINT = "none"
"""In place of a checkpoint's name: there is none, and no mode but cascade."""

BackendName = str
"""What a chat model is called among the server's."""

TOKEN_ENV = "KAME_SERVE_TOKEN"  # noqa: S105 - the variable's name
"""Environment variable with the token to enter, unless `care.token_env` names another."""

METRICS_TOKEN_ENV = "KAME_METRICS_TOKEN"  # noqa: S105 - the variable's name
"""Environment variable with the token of `/metrics`, unless `care.metrics_token_env` names another."""

REMOTE_ENGINE = "openai"
"""The chat engine that starts nothing: an endpoint elsewhere."""


class BackEndConfig(Config):
    """One chat model that sessions may have behind them."""

    name: BackendName = Field(
        default="default", pattern=r"^[a-z0-9][a-z0-9._-]*$", description="What callers and rules call it."
    )
    chat: ChatConfig = Field(default_factory=ChatConfig, description="Which model, and how it is reached.")
    models: list[str] = Field(
        default_factory=list,
        description="Other models of the same endpoint that sessions may choose, beside `chat.model`.",
    )
    prompt: str = Field(
        default="tandem",
        description="Prompt in kame_model/serve/oracle/prompt_files/, or the path of one.",
    )
    max_tokens: int = Field(default=64, ge=8, le=4096, description="Most tokens of one oracle.")
    answer_prompt: str | None = Field(
        default=None,
        description="Prompt of mode cascade, whose answers are read out; empty: `cascade` where `prompt` is `tandem`, "
        "else the same as `prompt`.",
    )
    answer_max_tokens: int = Field(default=256, ge=8, le=4096, description="Most tokens of one answer of mode cascade.")
    max_thought_s: float = Field(
        default=10.0,
        gt=0,
        le=120,
        description="Longest time that the chat model may think before its answer begins, seconds.",
    )
    temperature: float = Field(default=0.0, ge=0, le=2, description="Sampling temperature of the chat model.")

    @model_validator(mode="after")
    def _has_its_models(self) -> Self:
        if self.models and self.chat.engine != REMOTE_ENGINE:
            raise ValueError(
                f"models: only an endpoint elsewhere (chat.engine {REMOTE_ENGINE}) has several; "
                "give an embedded engine's models a back-end each"
            )
        return self


class RouteConfig(Config):
    """When what the user says so far holds one of these words, this back-end is asked; the first rule that fits."""

    words: list[str] = Field(min_length=1, description="Words or phrases, in small letters.")
    back_end: BackendName = Field(description="Name of the back-end to ask.")


class CycleConfig(Config):
    """When the back-end is asked while the user speaks."""

    interval_s: float = Field(
        default=0.3, ge=0.1, le=5, description="Shortest time between two requests, seconds; KAME's are 0.1 to 0.5."
    )
    max_in_flight: int = Field(
        default=2,
        ge=1,
        le=8,
        description="Requests of one session at once; a newer one waits for a place, unless the user's turn has ended.",
    )
    first_token_timeout_s: float = Field(
        default=5.0,
        gt=0,
        le=120,
        description="An answer that has not begun by then, or pauses for so long, has failed, seconds.",
    )
    max_history_turns: int = Field(default=12, ge=0, le=1000, description="Turns before this one that are told.")
    min_words: int = Field(default=2, ge=1, le=20, description="Words of the user's turn before anything is asked.")
    max_words: int = Field(
        default=30,
        ge=5,
        le=200,
        description="Longest oracle, in words: whole sentences as far as they fit (training: `oracle.max_words`).",
    )


class ListenerConfig(Config):
    """Which streaming recogniser listens to the user, and how it takes turns apart."""

    engine: str = Field(default="moonshine", description="Streaming recogniser; `kame backends` lists them.")
    options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="The recogniser's own options."
    )
    turn_end_silence_s: float = Field(
        default=0.7, ge=0.1, le=5, description="Silence after which the user's turn has ended, seconds."
    )
    speech_probability: float = Field(
        default=0.5, gt=0, lt=1, description="Probability of speech (silero-vad) above which somebody speaks."
    )


class CascadeConfig(Config):
    """Text-to-speech: of mode cascade, and of front-ends with the voice `synthesised`."""

    tts: str = Field(default="kokoro", description="Text-to-speech engine; `kame backends` lists them.")
    options: dict[str, str | int | float | bool] = Field(default_factory=dict, description="The engine's own options.")
    voice: str | None = Field(default=None, description="Its voice; empty: the engine's first.")
    speed: float = Field(default=1.0, ge=0.5, le=2, description="Speed of the voice.")


class LimitsConfig(Config):
    """What a caller may do, so that the others keep their real time."""

    max_sessions: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="Slots of the device's step; 0: the most that fit the frame's budget, 8 at most.",
    )
    budget_share: float = Field(
        default=0.8, gt=0, le=1, description="Share of a frame's 80 ms that a step may take before callers are refused."
    )
    max_backlog_s: float = Field(
        default=0.8, ge=0.16, le=10, description="Heard sound kept for a session that is behind; older is dropped."
    )
    max_unsent_s: float = Field(
        default=2.0, ge=0.16, le=60, description="Said sound kept for a client that is slow; older is dropped."
    )
    idle_s: float = Field(default=60.0, gt=0, description="A caller who sends nothing for so long is let go, seconds.")
    max_session_s: float = Field(default=3600.0, gt=0, description="Longest session, seconds.")
    max_sessions_per_address: int = Field(default=4, ge=1, description="Sessions from one address at once.")
    max_starts_per_minute: int = Field(default=30, ge=1, description="Sessions begun from one address in a minute.")
    max_message_bytes: int = Field(default=1_048_576, ge=1024, description="Longest message of a socket, bytes.")
    max_instruction_characters: int = Field(
        default=16_000,
        ge=100,
        description="Longest instructions of a caller's own, about 4,000 tokens of the chat model's context.",
    )
    max_messages_per_s: int = Field(default=200, ge=10, description="Messages of one socket in a second.")
    max_bytes_per_s: int = Field(
        default=262_144,
        ge=65_536,
        description="Bytes of one socket in a second; sound of the realtime protocol is 64,000. More is dropped.",
    )
    max_burst_bytes: int = Field(
        default=2_097_152, ge=65_536, description="Bytes of one socket that may come at once before that counts."
    )
    drain_s: float = Field(
        default=30.0, ge=0, description="At the end (SIGTERM), how long sessions may go on, seconds."
    )
    max_connections_before_entry: int = Field(
        default=64,
        ge=4,
        description="Of all connections, those without a session: requests and handshakes. A newer one closes the"
        " oldest.",
    )
    max_connections: int = Field(
        default_factory=lambda given: max(512, given["max_sessions"] + given["max_connections_before_entry"]),
        ge=8,
        description="Connections at once, sessions' too: 512, or as many as `max_sessions` and"
        " `max_connections_before_entry` need; fewer where `ulimit -n` leaves fewer.",
    )
    max_connections_per_address: int = Field(
        default_factory=lambda given: max(32, given["max_sessions_per_address"] + 28),
        ge=1,
        description="Connections of one address at once: 32, or 28 more than `max_sessions_per_address`; of a trusted"
        " proxy any number.",
    )
    max_requests_per_s: int = Field(
        default=50,
        ge=5,
        description="HTTP requests of one address in a second, those for a web socket too, after four times as many at"
        " once; of a trusted proxy any number. More are refused, and their connections closed.",
    )
    reserved_descriptors: int = Field(
        default=64, ge=8, description="Files and connections that may be opened for other things than callers."
    )
    entry_timeout_s: float = Field(
        default=10.0,
        gt=0,
        description="Longest time from a connection, or from the answer before, to the next answer or to the session's"
        " beginning, seconds.",
    )
    write_timeout_s: float = Field(
        default=10.0,
        gt=0,
        description="A client that takes nothing of what waits for it for so long is cut off, seconds.",
    )
    max_unwritten_bytes: int = Field(
        default=262_144,
        ge=65_536,
        description="Bytes that may wait for one client to read them; beyond, it is cut off.",
    )
    max_excess: float = Field(
        default=4.0,
        ge=1,
        description="A connection is cut off, before anything is read from it, that sends so many times what messages"
        " may have: bytes, by `max_bytes_per_s` and `max_burst_bytes`; frames of its web socket, pings and fragments"
        " too, by `max_messages_per_s`.",
    )

    @model_validator(mode="after")
    def _sessions_find_connections(self) -> Self:
        if self.max_sessions_per_address > self.max_connections_per_address:
            raise ValueError(
                f"max_sessions_per_address: {self.max_sessions_per_address} sessions of one address need as many"
                f" connections, and max_connections_per_address is {self.max_connections_per_address}; raise it, or"
                " leave it out"
            )
        n_connections = self.max_connections - min(self.max_connections_before_entry, self.max_connections // 2)
        if self.max_sessions > n_connections:
            raise ValueError(
                f"max_sessions: max_connections={self.max_connections} leaves {n_connections} of the"
                f" {self.max_sessions} that sessions need, for max_connections_before_entry are not theirs, half of all"
                " at most; raise max_connections, or leave it out"
            )
        return self


class CareConfig(Config):
    """Who may come in, and what they are told. Secrets come from the environment, never from here."""

    token_env: str = Field(
        default=TOKEN_ENV,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Environment variable with the token to enter; where it is unset nobody needs one.",
    )
    metrics_token_env: str = Field(
        default=METRICS_TOKEN_ENV,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Environment variable with a token that opens /metrics and nothing else, and is then the only one"
        " that does; where it is unset the token to enter opens /metrics too.",
    )
    prompts: Literal["open", "locked"] = Field(
        default="open",
        description="open: callers may choose a prompt or give instructions of their own; locked: every session has"
        " those of its back-end, and callers who wish for others are refused.",
    )
    origins: list[str] = Field(
        default_factory=list,
        description="Pages that may connect, as https://host:port; empty: this server's own; *: any.",
    )
    hosts: list[str] = Field(
        default_factory=list,
        description="Names that callers reach this server by, behind a proxy too; addresses, localhost and `host` are"
        " taken anyway. *: any. Asked for where no origins are given.",
    )
    certificate: str | None = Field(default=None, description="TLS certificate chain (PEM); empty: no TLS.")
    private_key: str | None = Field(default=None, description="The certificate's key (PEM).")
    hsts_s: int = Field(
        default=31_536_000,
        ge=0,
        description="With a certificate: how long browsers are to come by TLS alone (HSTS), seconds; 0: not told.",
    )
    trusted_proxies: list[str] = Field(default_factory=list, description="Addresses whose X-Forwarded-For is believed.")
    notice: str = Field(
        default="You are talking to a machine; its voice is synthetic.",
        description="Told to every caller: a header, an event and the page. Empty: nothing is told.",
    )
    notice_as_text: bool = Field(
        default=True, description="Moshi's own clients know no events: they get the notice as the first text."
    )

    _expanded = field_validator("certificate", "private_key")(at_home)

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("certificate and private_key are given together")
        return self


class RecordConfig(Config):
    """What is kept of those callers who were told and said yes; without a folder nothing of anybody is."""

    folder: str | None = Field(default=None, description="Where recordings are kept; empty: none are made.")
    enabled: bool = Field(
        default=True,
        description="Whether callers who agree are recorded; false: nobody is, and what the folder has is still deleted"
        " when it is old enough or by its caller.",
    )
    keep_days: float = Field(default=30.0, gt=0, description="Recordings older than this are deleted, days.")
    notice: str = Field(
        default="If you agree, what is said is kept, sound and words, to train and to test such machines.",
        min_length=1,
        description="What callers are told before they say yes; kept with each recording.",
    )

    _expanded = field_validator("folder")(at_home)


class ServeConfig(Config):
    """All there is to say about a server."""

    checkpoint: str = Field(
        description="Folder of an export, or owner/name[@revision] on the Hub; none: there is mode cascade alone."
    )
    host: str = Field(default="127.0.0.1", description="Address to listen at.")
    port: int = Field(default=8998, ge=0, le=65535, description="Port to listen at (moshi's is 8998); 0: any free one.")
    device: str = Field(default="auto", description="cpu, cuda, or auto: cuda where there is one.")
    mode: Mode = Field(default="tandem", description="How a session begins; it may change while it runs.")
    voice: Voice | None = Field(
        default=None,
        description="What is heard of the front-end: decoded (its own sound), or synthesised (its text by the "
        "text-to-speech of `cascade`); empty: as the checkpoint says.",
    )
    back_ends: list[BackEndConfig] = Field(
        default_factory=lambda: [BackEndConfig()], min_length=1, description="Chat models; the first is the default."
    )
    routes: list[RouteConfig] = Field(default_factory=list, description="Rules that choose among them by words.")
    classifier: str | None = Field(
        default=None, description="module:function from the user's words to a back-end's name or None, asked first."
    )
    cuda_graphs: bool = Field(
        default=True, description="On CUDA: steps as graphs, which are faster; no effect on a CPU."
    )
    sampling: SamplingConfig = Field(
        default_factory=SamplingConfig,
        description="How the front-end's tokens are chosen; what is not set is as the checkpoint says.",
    )
    cycle: CycleConfig = Field(default_factory=CycleConfig, description="When the back-end is asked.")
    listener: ListenerConfig = Field(default_factory=ListenerConfig, description="Who hears the user.")
    cascade: CascadeConfig = Field(default_factory=CascadeConfig, description="Text-to-speech.")
    limits: LimitsConfig = Field(default_factory=LimitsConfig, description="What callers may do.")
    care: CareConfig = Field(default_factory=CareConfig, description="Who comes in, and what they are told.")
    record: RecordConfig = Field(default_factory=RecordConfig, description="What is kept, if anything.")

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        names = [each.name for each in self.back_ends]
        if len(set(names)) < len(names):
            raise ValueError("back_ends: two have the same name")
        for route in self.routes:
            if route.back_end not in names:
                raise ValueError(f"routes: there is no back-end {route.back_end!r}; they are {', '.join(names)}")
        return self
