"""The server: access control, limits, speech recogniser, chat models and recordings."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from data_schemas.config.base import VARIABLE_NAME, Config, expand_home
from data_schemas.config.chat import ChatConfig
from data_schemas.config.model import SamplingConfig
from data_schemas.guesses import TURN_END_SILENCE_S, Guesses

Mode = Literal["tandem", "direct", "cascade"]
"""tandem: the front-end speaks and hears the back-end's oracle · direct: it speaks alone · cascade: recogniser, chat
model and text-to-speech take turns with the user."""

Voice = Literal["decoded", "synthesised"]
"""How a user hears the front-end: its own audio codes, decoded · its text, said by text-to-speech."""

NO_CHECKPOINT = "none"
"""Used instead of a checkpoint's name when there is none; only mode cascade is then possible."""

BackendName = str
"""Name of a chat model of the server."""

TOKEN_ENV = "KAME_SERVE_TOKEN"  # noqa: S105 - the variable's name
"""Environment variable with the access token, unless `care.token_env` names another."""

METRICS_TOKEN_ENV = "KAME_METRICS_TOKEN"  # noqa: S105 - the variable's name
"""Environment variable with the access token of `/metrics`, unless `care.metrics_token_env` names another."""

REMOTE_ENGINE = "openai"
"""The chat engine that starts no server and calls a remote endpoint."""


class BackEndConfig(Config):
    """One chat model that sessions can use as back-end."""

    name: BackendName = Field(
        default="default",
        pattern=r"^[a-z0-9][a-z0-9._-]*$",
        description="Name of this back-end in requests and routing rules.",
    )
    chat: ChatConfig = Field(default_factory=ChatConfig, description="Chat model and how to connect to it.")
    models: list[str] = Field(
        default_factory=list,
        description="Other models of the same endpoint that sessions may choose besides `chat.model`.",
    )
    prompt: str = Field(
        default="tandem",
        description="Name of a prompt in kame_model/serve/oracle/prompt_files/, or a path to one.",
    )
    max_tokens: int = Field(default=64, ge=8, le=4096, description="Maximum number of tokens of one oracle.")
    answer_prompt: str | None = Field(
        default=None,
        description="Prompt for mode cascade, whose answers are read aloud; empty: `cascade` if `prompt` is "
        "`tandem`, else the same as `prompt`.",
    )
    answer_max_tokens: int = Field(
        default=256, ge=8, le=4096, description="Maximum number of tokens of one answer in mode cascade."
    )
    max_thought_s: float = Field(
        default=10.0,
        title="Longest thinking time, s",
        gt=0,
        le=120,
        description="Longest time that a reasoning model may think before its answer begins, in seconds.",
    )
    temperature: float = Field(default=0.0, ge=0, le=2, description="Sampling temperature of the chat model.")

    @model_validator(mode="after")
    def _check_models(self) -> Self:
        """Checks that only a remote endpoint has several models."""
        if self.models and self.chat.engine != REMOTE_ENGINE:
            raise ValueError(
                f"models: only a remote endpoint (chat.engine {REMOTE_ENGINE}) can have several; "
                "define one back-end for each model of an embedded engine"
            )
        return self


class RouteConfig(Config):
    """Chooses a back-end if the user's turn so far contains one of these words; the first rule that matches is used."""

    words: list[str] = Field(min_length=1, description="Words or phrases to match, in lower case.")
    back_end: BackendName = Field(description="Name of the back-end that is used.")


class CycleConfig(Config):
    """When the back-end is called while the user speaks."""

    interval_s: float = Field(
        default=0.3,
        ge=0.1,
        le=5,
        description="Shortest interval between two requests to the back-end, in seconds; KAME uses 0.1 to 0.5.",
    )
    max_in_flight: int = Field(
        default=2,
        ge=1,
        le=8,
        description="Maximum number of concurrent requests of one session; a newer one waits, unless the user's turn "
        "has ended.",
    )
    first_token_timeout_s: float = Field(
        default=5.0,
        gt=0,
        le=120,
        description="Timeout for the first token of an answer, and for each pause within it, in seconds.",
    )
    max_history_turns: int = Field(
        default=12, ge=0, le=1000, description="Maximum number of previous turns in the prompt."
    )
    guesses: Guesses | None = Field(
        default=None,
        description="Answers to the unfinished question. feed: they are fed whenever they arrive; withdraw: those that "
        "have not been fed are discarded when the user's turn has ended; hold: none is fed, and the answer to the "
        "whole question not before the turn has ended. Empty: as the checkpoint was trained.",
    )
    min_words: int = Field(
        default=2, ge=1, le=20, description="Number of words of the user's turn before the first request."
    )
    max_words: int = Field(
        default=30,
        ge=5,
        le=200,
        description="Maximum length of an oracle in words; cut at the end of a sentence if possible (training: "
        "`oracle.max_words`).",
    )


class ListenerConfig(Config):
    """Streaming speech recogniser for the user's channel, and detection of the end of a turn."""

    engine: str = Field(default="moonshine", description="Streaming speech recogniser; `kame backends` lists them.")
    options: dict[str, str | int | float | bool] = Field(default_factory=dict, description="Options of the recogniser.")
    turn_end_silence_s: float = Field(
        default=TURN_END_SILENCE_S, ge=0.1, le=5, description="Silence after which the user's turn ends, in seconds."
    )
    speech_probability: float = Field(
        default=0.5,
        gt=0,
        lt=1,
        description="Voice activity threshold: probability of speech (silero-vad) above which the user is speaking.",
    )


class CascadeConfig(Config):
    """Text-to-speech for mode cascade, and for front-ends with the voice `synthesised`."""

    tts: str = Field(default="kokoro", description="Text-to-speech engine; `kame backends` lists them.")
    options: dict[str, str | int | float | bool] = Field(default_factory=dict, description="Options of the engine.")
    voice: str | None = Field(default=None, description="Name of the voice; empty: the engine's first.")
    speed: float = Field(default=1.0, ge=0.5, le=2, description="Speaking rate (1: the normal speed of the voice).")


class LimitsConfig(Config):
    """Limits on each caller, so that all other sessions stay in real time."""

    max_sessions: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="Maximum number of concurrent sessions (the batch size on the device); 0: as many as the time "
        "budget allows, at most 8.",
    )
    budget_share: float = Field(
        default=0.8,
        gt=0,
        le=1,
        description="Share of a frame's 80 ms that one step may take; above it new callers are refused.",
    )
    max_backlog_s: float = Field(
        default=0.8,
        ge=0.16,
        le=10,
        description="Received audio buffered for a session that cannot keep up, in seconds. If there is more, all but "
        "the newest half of this is dropped.",
    )
    max_unsent_s: float = Field(
        default=2.0,
        ge=0.16,
        le=60,
        description="Outgoing audio buffered for a slow client, in seconds; older audio is dropped.",
    )
    idle_s: float = Field(
        default=60.0, gt=0, description="A client that sends nothing for this long is disconnected, in seconds."
    )
    max_session_s: float = Field(default=3600.0, gt=0, description="Maximum length of a session, in seconds.")
    max_sessions_per_address: int = Field(
        default=4, ge=1, description="Maximum number of concurrent sessions of one IP address."
    )
    max_starts_per_minute: int = Field(
        default=30, ge=1, description="Maximum number of sessions that one IP address may start per minute."
    )
    max_message_bytes: int = Field(
        default=1_048_576, ge=1024, description="Maximum size of a web socket message, in bytes."
    )
    max_instruction_characters: int = Field(
        default=16_000,
        ge=100,
        description="Maximum length of a caller's own instructions, in characters; the default is about 4,000 tokens "
        "of the chat model's context.",
    )
    max_messages_per_s: int = Field(
        default=200, ge=10, description="Maximum number of messages per second of one web socket."
    )
    max_bytes_per_s: int = Field(
        default=262_144,
        ge=65_536,
        description="Maximum number of bytes per second of one web socket; audio of the realtime protocol takes "
        "64,000. More is dropped.",
    )
    max_burst_bytes: int = Field(
        default=2_097_152,
        ge=65_536,
        description="Number of bytes that one web socket may send at once before `max_bytes_per_s` applies.",
    )
    drain_s: float = Field(
        default=30.0,
        ge=0,
        description="Graceful shutdown: how long running sessions may continue after SIGTERM, in seconds.",
    )
    max_connections_before_entry: int = Field(
        default=64,
        ge=4,
        description="Maximum number of connections without a session: HTTP requests and handshakes. A newer one "
        "closes the oldest.",
    )
    max_connections: int = Field(
        default_factory=lambda given: max(512, given["max_sessions"] + given["max_connections_before_entry"]),
        ge=8,
        description="Maximum number of connections, including those of sessions: 512, or as many as `max_sessions` "
        "and `max_connections_before_entry` need; fewer if `ulimit -n` allows fewer.",
    )
    max_connections_per_address: int = Field(
        default_factory=lambda given: max(32, given["max_sessions_per_address"] + 28),
        ge=1,
        description="Maximum number of connections of one IP address: 32, or 28 more than "
        "`max_sessions_per_address`; trusted proxies have no limit.",
    )
    max_requests_per_s: int = Field(
        default=50,
        ge=5,
        description="Maximum number of HTTP requests per second of one IP address, including web socket handshakes; "
        "four times as many may come at once. More are refused and their connections closed. Trusted proxies have no "
        "limit.",
    )
    reserved_descriptors: int = Field(
        default=64, ge=8, description="Number of file descriptors reserved for other uses than connections of callers."
    )
    entry_timeout_s: float = Field(
        default=10.0,
        gt=0,
        description="Timeout from a connection, or from its last response, to the next response or the start of a "
        "session, in seconds.",
    )
    write_timeout_s: float = Field(
        default=10.0,
        gt=0,
        description="A client that reads nothing for this long while data waits for it is disconnected, in seconds.",
    )
    max_unwritten_bytes: int = Field(
        default=262_144,
        ge=65_536,
        description="Number of bytes that may wait to be sent to one client; above it, the client is disconnected.",
    )
    max_excess: float = Field(
        default=4.0,
        ge=1,
        description="A connection that sends this many times more than the limits is closed before anything is read "
        "from it: bytes, by `max_bytes_per_s` and `max_burst_bytes`; web socket frames, including pings and "
        "fragments, by `max_messages_per_s`.",
    )

    @model_validator(mode="after")
    def _check_connections(self) -> Self:
        """Checks that the limits of connections leave one for each session."""
        if self.max_sessions_per_address > self.max_connections_per_address:
            raise ValueError(
                f"max_sessions_per_address: {self.max_sessions_per_address} sessions of one address need as many"
                f" connections, but max_connections_per_address is {self.max_connections_per_address}; raise it or"
                " leave it unset"
            )
        n_connections = self.max_connections - min(self.max_connections_before_entry, self.max_connections // 2)
        if self.max_sessions > n_connections:
            raise ValueError(
                f"max_sessions: {self.max_sessions} sessions need as many connections, but"
                f" max_connections={self.max_connections} leaves {n_connections}, because max_connections_before_entry"
                " (at most half of all) are reserved; raise max_connections or leave it unset"
            )
        return self


class CareConfig(Config):
    """Access control, and notices to callers. Secrets come from environment variables only."""

    token_env: str = Field(
        default=TOKEN_ENV,
        pattern=VARIABLE_NAME,
        description="Environment variable with the access token; if it is unset, no authentication is required.",
    )
    metrics_token_env: str = Field(
        default=METRICS_TOKEN_ENV,
        pattern=VARIABLE_NAME,
        description="Environment variable with an access token for /metrics only. If it is set, no other token opens "
        "/metrics; if it is unset, the access token of `token_env` does.",
    )
    prompts: Literal["open", "locked"] = Field(
        default="open",
        description="open: callers may choose a prompt or send instructions; locked: every session uses the prompt "
        "of its back-end, and callers who send another are refused.",
    )
    origins: list[str] = Field(
        default_factory=list,
        description="Web origins that may connect (CORS), as https://host:port; empty: this server's own; *: any.",
    )
    hosts: list[str] = Field(
        default_factory=list,
        description="Host names that this server may be called by, including those of a proxy; IP addresses, "
        "localhost and `host` are always allowed. *: any. Checked only if `origins` is empty.",
    )
    certificate: str | None = Field(default=None, description="TLS certificate chain (PEM); empty: no TLS.")
    private_key: str | None = Field(default=None, description="Private key of the certificate (PEM).")
    hsts_s: int = Field(
        default=31_536_000,
        ge=0,
        description="With a certificate: max-age of the Strict-Transport-Security header (HSTS), in seconds; 0: no "
        "header.",
    )
    trusted_proxies: list[str] = Field(
        default_factory=list, description="IP addresses of proxies whose X-Forwarded-For header is trusted."
    )
    notice: str = Field(
        default="You are talking to a machine; its voice is synthetic.",
        description="Notice shown to every caller, in a header, an event and on the page. Empty: none.",
    )
    notice_as_text: bool = Field(
        default=True,
        description="Whether Moshi's own clients, which do not support events, get the notice as the first text.",
    )

    _expanded = field_validator("certificate", "private_key")(expand_home)

    @model_validator(mode="after")
    def _check_certificate(self) -> Self:
        """Checks that certificate and private key are given together."""
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("certificate and private_key must be given together")
        return self


class RecordConfig(Config):
    """Recording of callers who consent; without a folder nothing is recorded."""

    folder: str | None = Field(default=None, description="Folder of the recordings; empty: nothing is recorded.")
    enabled: bool = Field(
        default=True,
        description="Whether callers who consent are recorded; false: no new recordings are made, and existing ones "
        "can still be deleted by their callers or when they expire.",
    )
    keep_days: float = Field(
        default=30.0, gt=0, description="Retention time: recordings older than this are deleted, in days."
    )
    notice: str = Field(
        default="If you agree, what is said is kept, sound and words, to train and to test such machines.",
        min_length=1,
        description="Notice that callers get before they consent; stored with each recording.",
    )

    _expanded = field_validator("folder")(expand_home)


class ServeConfig(Config):
    """All settings of a server."""

    checkpoint: str = Field(
        description="Folder of an export, or owner/name[@revision] on the Hub; none: no front-end, only mode cascade."
    )
    host: str = Field(default="127.0.0.1", description="IP address or host name to listen on.")
    port: int = Field(
        default=8998, ge=0, le=65535, description="Port to listen on (moshi's is 8998); 0: any free port."
    )
    device: str = Field(default="auto", description="cpu, cuda, or auto: cuda if available.")
    mode: Mode = Field(
        default="tandem",
        description="Initial mode of a session, which can be changed while it runs. tandem: front-end with chat model; "
        "direct: front-end alone; cascade: chat model's answers by text-to-speech.",
    )
    processes: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Processes that share the port, each with its own model and sessions; on GPUs one per GPU.",
    )
    voice: Voice | None = Field(
        default=None,
        description="Voice of the front-end: decoded (its own audio codes), or synthesised (its text, by the "
        "text-to-speech engine of `cascade`); empty: the voice stored in the checkpoint.",
    )
    back_ends: list[BackEndConfig] = Field(
        default_factory=lambda: [BackEndConfig()],
        min_length=1,
        title="Back-ends",
        description="Chat models; the first is the default.",
    )
    routes: list[RouteConfig] = Field(
        default_factory=list, description="Rules that choose a back-end by words of the user."
    )
    classifier: str | None = Field(
        default=None,
        description="Python function as module:function that takes the user's words and returns the name of a "
        "back-end or None; called before the rules.",
    )
    cuda_graphs: bool = Field(
        default=True, description="Whether steps run as CUDA graphs, which is faster; no effect on a CPU."
    )
    sampling: SamplingConfig = Field(
        default_factory=SamplingConfig,
        description="How the front-end's tokens are sampled; fields that are not set are taken from the checkpoint.",
    )
    cycle: CycleConfig = Field(default_factory=CycleConfig, description="When the back-end is called.")
    listener: ListenerConfig = Field(
        default_factory=ListenerConfig, description="Streaming speech recogniser and turn detection."
    )
    cascade: CascadeConfig = Field(default_factory=CascadeConfig, description="Text-to-speech.")
    limits: LimitsConfig = Field(
        default_factory=LimitsConfig, description="Limits on sessions, connections and messages."
    )
    care: CareConfig = Field(default_factory=CareConfig, description="Access control, and notices to callers.")
    record: RecordConfig = Field(default_factory=RecordConfig, description="Recording of sessions.")

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        """Checks that back-ends have different names, and that routes lead to existing ones."""
        names = [each.name for each in self.back_ends]
        if len(set(names)) < len(names):
            raise ValueError("back_ends: two back-ends have the same name; names must be unique")
        for route in self.routes:
            if route.back_end not in names:
                raise ValueError(f"routes: there is no back-end {route.back_end!r}; choose one of: {', '.join(names)}")
        return self
