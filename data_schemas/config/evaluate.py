"""The parameters of the Prefect flow `evaluate`: one form for all kinds of evaluation, without unions."""

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from data_schemas.config.base import Config, at_home
from data_schemas.config.questions import QuestionSetName
from data_schemas.config.serving import Mode

Kind = Literal["recall", "questions", "mt-bench", "duplex"]


_OF_KINDS: Final[dict[str, tuple[Kind, ...]]] = {
    "listen": ("recall",),
    "voices": ("recall",),
    "again": ("recall", "duplex"),
    "register_folder": ("recall", "duplex"),
}
"""Parameters that only some kinds have."""


class EvaluateConfig(Config):
    """What is evaluated, and how. What is left empty is as the command `kame evaluate KIND` has it."""

    kind: Kind = Field(
        default="duplex",
        title="Kind",
        description="recall: what it says of what its oracle told it; questions: spoken questions; mt-bench: MT-Bench, "
        "spoken and judged; duplex: taking turns.",
    )
    checkpoint: str = Field(title="Checkpoint", description="Folder of an export, or owner/name on the Hub.")
    path: str = Field(
        default="",
        title="Data",
        description="recall: folder of token rows; questions: the set's file or folder, empty: the Hub; mt-bench: the "
        "folder of question.jsonl; duplex: Full-Duplex-Bench's folder or a dataset's.",
    )
    out: str = Field(
        default="evaluation",
        title="Folder of the report",
        description="The same evaluation in it is gone on with; another one is refused.",
    )
    anew: bool = Field(
        default=False, title="Begin anew", description="Replace what another evaluation left in that folder."
    )
    questions: QuestionSetName = Field(default="mine", title="Question set", description="Of kind questions.")
    modes: list[Mode] = Field(
        default_factory=list,
        title="Modes",
        description="direct, tandem, cascade; empty: the kind's own. Kind recall calls no server.",
    )
    delays_s: list[float] = Field(
        default_factory=list,
        title="Delays of the back-end",
        description="Seconds, each in turn; empty: as it takes, of kind recall 0.1, 0.32, 1, 2 and 3.",
    )
    n_items: int = Field(default=0, ge=0, title="Items at most", description="0: as the kind has it.")
    seed: int = Field(default=0, ge=0, title="Seed", description="Of the sampling.")
    llm_provider: str = Field(default="", title="Back-end's provider", description="openai, anthropic, google, …")
    llm_url: str = Field(default="", title="Back-end's URL", description="OpenAI-compatible base URL with /v1.")
    llm_model: str = Field(default="", title="Back-end's model", description="Empty: the embedded one.")
    judge_provider: str = Field(default="", title="Judge's provider", description="As of the back-end.")
    judge_url: str = Field(default="", title="Judge's URL", description="As of the back-end.")
    judge_model: str = Field(
        default="",
        title="Judge's model",
        description="Of kinds questions and duplex (empty: nobody judges), and mt-bench.",
    )
    listen: bool = Field(
        default=False, title="Listen", description="Of kind recall: a recogniser listens to the decoded sound."
    )
    voices: str = Field(
        default="",
        title="Other voices",
        description="Of kind recall: token rows of the same dialogues with other users' voices.",
    )
    again: bool = Field(
        default=False,
        title="Look at test items again",
        description="Of kinds recall and duplex: though these weights have been tested before.",
    )
    register_folder: str = Field(
        default="",
        title="Register",
        description="Of kinds recall and duplex: the folder of checkpoints that counts looks at test items; empty: the "
        "checkpoint's own.",
    )
    device: str = Field(default="auto", title="Device", description="cpu, cuda, or auto: cuda where there is one.")
    settings: list[str] = Field(
        default_factory=list,
        title="Other settings of the evaluation",
        description="As typed behind --set: name=value, dotted names (data_schemas/config/).",
    )
    server_settings: list[str] = Field(
        default_factory=list,
        title="Other settings of the server",
        description="The same of the server that is called: cascade.tts=piper, sampling.temp_text=0.3.",
    )

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        if not self.path and self.kind != "questions":
            raise ValueError(f"path: kind {self.kind} needs its data")
        if any(not 0 <= each <= 60 for each in self.delays_s):
            raise ValueError("delays_s: a delay is from 0 to 60 seconds")
        for name, kinds in _OF_KINDS.items():
            if getattr(self, name) and self.kind not in kinds:
                raise ValueError(f"{name}: kind {self.kind} has no such parameter; {' and '.join(kinds)} have")
        for name in ("path", "out", "checkpoint", "voices", "register_folder"):
            object.__setattr__(self, name, at_home(getattr(self, name)) or "")
        return self
