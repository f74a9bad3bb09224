"""The protocol of a stage: a name, a version, record types in and out, and one method on a batch of records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from data_schemas.records import Dialogue, Item, Reject

Out = TypeVar("Out")


@dataclass(frozen=True, slots=True)
class StageResult(Generic[Out]):
    """The outputs of a stage for a batch, in the batch's order, and its rejects.

    `n_to_retry` counts what failed for a temporary reason; a later run makes such a part again.
    `other_request_ids` has the requests whose answers are cached but not named in an output.
    """

    outputs: list[Out]
    rejects: list[Reject]
    n_to_retry: int = 0
    other_request_ids: list[str] = field(default_factory=list)


class StageDescription(Protocol):
    """Describes a stage without running it.

    `inputs` names the stages it reads (`items` is the first of all). `input_types` are the record classes as which it
    reads them; a class with fewer fields than the file has columns reads just those. Each element of a batch holds one
    record of each input, joined on `dialogue_id`.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    inputs: ClassVar[tuple[str, ...]]
    input_types: ClassVar[tuple[type, ...]]
    output_type: ClassVar[type]

    def get_fingerprint_fields(self) -> dict[str, Any]:
        """Returns what determines the output besides the inputs, as JSON values: configuration and digests.

        Digests may require reading the files of models.
        """


class Stage(StageDescription, Protocol[Out]):
    """A stage that calls no chat model; those that call one are `asking.AskingStage`."""

    def run(self, batch: Sequence[Any]) -> StageResult[Out]:
        """Returns the outputs and rejects of a batch; the same batch gives the same result."""


def make_reject(record: Item | Dialogue, stage: str, reason: str, detail: str) -> Reject:
    """Makes the reject of an item or a dialogue, with its reason; the detail is cut at 500 characters."""
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
    """What identifies a stage's work on any part; computed once per stage, since it may require reading models."""

    version: int
    inputs: tuple[str, ...]
    fingerprint_fields: dict[str, Any]


def make_recipes(stages: Mapping[str, StageDescription]) -> dict[str, Recipe]:
    """Returns the recipe of each stage, by name and in the same order."""
    return {name: Recipe(stage.version, stage.inputs, stage.get_fingerprint_fields()) for name, stage in stages.items()}
