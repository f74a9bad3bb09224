"""What a stage is: a name, a version, record types in and out, and one method on a batch. It knows nothing of files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from data_schemas.records import Dialogue, Item, Reject

Out = TypeVar("Out")


@dataclass(frozen=True, slots=True)
class StageResult(Generic[Out]):
    """What a stage made of a batch, in the batch's order, and what it refused.

    `n_to_retry` counts what failed for a reason that may pass; a later run makes such a part again.
    """

    outputs: list[Out]
    rejects: list[Reject]
    n_to_retry: int = 0


class StageDescription(Protocol):
    """What is known of a step from records to records without doing it.

    `inputs` names the stages it reads (`items` is the first of all); `input_types` says as what: a record class with
    fewer fields than the file has columns reads just those. Each element of a batch holds one record of each input,
    joined on `dialogue_id`.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    inputs: ClassVar[tuple[str, ...]]
    input_types: ClassVar[tuple[type, ...]]
    output_type: ClassVar[type]

    def matters(self) -> dict[str, Any]:
        """The configuration and digests that decide the output; goes into the fingerprint."""


class Stage(StageDescription, Protocol[Out]):
    """A step that needs nobody else; those that ask a chat model are `asking.AskingStage`."""

    def run(self, batch: Sequence[Any]) -> StageResult[Out]:
        """The batch's outputs and rejects; the same batch gives the same result."""


def make_reject(record: Item | Dialogue, stage: str, reason: str, detail: str) -> Reject:
    """The reject row of an item, or of the dialogue made from it; a long detail is cut."""
    return Reject(
        item_id=record.item_id,
        dialogue_id=record.dialogue_id if isinstance(record, Dialogue) else None,
        source=record.source,
        stage=stage,
        reason=reason,
        detail=detail[:500],
    )


@dataclass(frozen=True, slots=True)
class Recipe:
    """What identifies a stage's work on any part, taken from the stage once: asking it may cost reading models."""

    version: int
    inputs: tuple[str, ...]
    matters: dict[str, Any]


def make_recipes(stages: Mapping[str, StageDescription]) -> dict[str, Recipe]:
    """The recipes of all stages, in their order."""
    return {name: Recipe(stage.version, stage.inputs, stage.matters()) for name, stage in stages.items()}
