"""What a stage is: a name, a version, record types in and out, and one method on a batch. It knows nothing of files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from data_schemas.records import Reject

Out = TypeVar("Out")


@dataclass(frozen=True, slots=True)
class StageResult(Generic[Out]):
    """What a stage made of a batch, in the batch's order, and what it refused."""

    outputs: list[Out]
    rejects: list[Reject]


class Stage(Protocol[Out]):
    """One step from records to records.

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

    def run(self, batch: Sequence[Any]) -> StageResult[Out]:
        """The batch's outputs and rejects; the same batch gives the same result."""
