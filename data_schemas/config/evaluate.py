"""The parameters of the Prefect flow `evaluate`: one form for all kinds of evaluation, without unions."""

from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from data_schemas.config.base import Config, expand_home
from data_schemas.config.chat import check_urls
from data_schemas.config.questions import QuestionSetName
from data_schemas.config.serving import Mode

Kind = Literal["recall", "questions", "mt-bench", "duplex"]


_OF_KINDS: Final[dict[str, tuple[Kind, ...]]] = {
    "listen": ("recall",),
    "voices": ("recall",),
    "again": ("recall", "duplex"),
    "register_folder": ("recall", "duplex"),
}
"""Parameters that only some kinds of evaluation use."""


class EvaluateConfig(Config):
    """Settings of an evaluation. Empty fields have the defaults of the command `kame evaluate KIND`."""

    kind: Kind = Field(
        default="duplex",
        title="Kind",
        description="recall: whether the model says what its oracle holds; questions: spoken question sets; "
        "mt-bench: spoken MT-Bench with a judge; duplex: turn-taking.",
    )
    checkpoint: str = Field(title="Checkpoint", description="Folder of an export, or owner/name on the Hub.")
    path: str = Field(
        default="",
        title="Data",
        description="recall: folder of token rows; questions: file or folder of the set, empty: the Hub; mt-bench: "
        "folder of question.jsonl; duplex: folder of Full-Duplex-Bench or of a dataset.",
    )
    out: str = Field(
        default="evaluation",
        title="Folder of the report",
        description="If the folder holds the same evaluation, it is resumed; if it holds another one, this is an "
        "error.",
    )
    anew: bool = Field(default=False, title="Begin anew", description="Overwrite another evaluation's results there.")
    questions: QuestionSetName = Field(default="mine", title="Question set", description="Used by kind questions.")
    modes: list[Mode] = Field(
        default_factory=list,
        title="Modes",
        description="direct (front-end alone), tandem (front-end with chat model), cascade (chat model's answers by "
        "text-to-speech); empty: the kind's default. Not used by kind recall, which calls no server.",
    )
    delays_s: list[float] = Field(
        default_factory=list,
        title="Delays of the back-end",
        description="In seconds; each is evaluated. Empty: the back-end's real delay; for kind recall 0.1, 0.32, 1, "
        "2 and 3.",
    )
    n_items: int = Field(default=0, ge=0, title="Items at most", description="0: the kind's default.")
    seed: int = Field(default=0, ge=0, title="Seed", description="Seed of the sampling.")
    llm_provider: str = Field(default="", title="Back-end's provider", description="openai, anthropic, google, …")
    llm_url: str = Field(default="", title="Back-end's URL", description="OpenAI-compatible base URL with /v1.")
    llm_model: str = Field(default="", title="Back-end's model", description="Empty: the embedded model.")
    judge_provider: str = Field(default="", title="Judge's provider", description="openai, anthropic, google, …")
    judge_url: str = Field(default="", title="Judge's URL", description="OpenAI-compatible base URL with /v1.")
    judge_model: str = Field(
        default="",
        title="Judge's model",
        description="Used by kinds mt-bench, questions and duplex; for the last two, empty: no judge.",
    )
    listen: bool = Field(
        default=False, title="Listen", description="Used by kind recall: a recogniser transcribes the decoded audio."
    )
    voices: str = Field(
        default="",
        title="Other voices",
        description="Used by kind recall: token rows of the same dialogues with other user voices, evaluated as well.",
    )
    again: bool = Field(
        default=False,
        title="Evaluate on test again",
        description="Used by kinds recall and duplex: allow it although these weights have been evaluated on test "
        "before.",
    )
    register_folder: str = Field(
        default="",
        title="Register",
        description="Used by kinds recall and duplex: folder of checkpoints whose register counts the evaluations on "
        "test; empty: the checkpoint's own folder.",
    )
    device: str = Field(default="auto", title="Device", description="cpu, cuda, or auto: cuda if available.")
    settings: list[str] = Field(
        default_factory=list,
        title="Other settings of the evaluation",
        description="As for --set: name=value, with dotted names (data_schemas/config/).",
    )
    server_settings: list[str] = Field(
        default_factory=list,
        title="Other settings of the server",
        description="The same for the server that is called: cascade.tts=piper, sampling.temp_text=0.3.",
    )

    @field_validator("llm_url", "judge_url")
    @classmethod
    def _check_addresses(cls, urls: str) -> str:
        """Checks that an address holds no secret, before a run records it."""
        return check_urls(urls) if urls else urls

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        """Checks data, delays and the parameters that only some kinds have (`_OF_KINDS`), and expands `~` in paths."""
        if not self.path and self.kind != "questions":
            raise ValueError(f"path: kind {self.kind} needs a file or folder of data")
        if any(not 0 <= each <= 60 for each in self.delays_s):
            raise ValueError("delays_s: each delay must be from 0 to 60 seconds")
        for name, kinds in _OF_KINDS.items():
            if getattr(self, name) and self.kind not in kinds:
                raise ValueError(f"{name}: kind {self.kind} has no such parameter; it is for {' and '.join(kinds)}")
        for name in ("path", "out", "checkpoint", "voices", "register_folder"):
            object.__setattr__(self, name, expand_home(getattr(self, name)) or "")
        return self
