"""Applies a stage to a part: reads, checks the schema at the edge, writes beside and renames, then records it.

A part's output of a stage is one Parquet file named by its fingerprint, and a record beside it, written last, with the
checksum and the rejects. Only what has a record is there; what is recorded is never made again.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from data_schemas import ids
from data_schemas.arrow import from_table, schema_of, to_table
from data_schemas.errors import StoreError
from data_schemas.fingerprint import fingerprint
from data_schemas.records import Item, Reject
from data_schemas.store import Batch, Store
from pipelines.run.parts import Member
from pipelines.stage import Recipe, Stage, StageDescription, StageResult

FOLDER = ".store/parts"
ITEMS = "items"
Record = TypeVar("Record")
OnPart = Callable[[str, "Part", "PartRecord"], None]
"""Is told of a stage's output for a part, made now or found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """About 16 dialogues, the unit of work and of resuming; `fingerprints` has one for each stage's output."""

    part_id: str
    shard_id: str
    source: str
    split: str
    n_items: int
    fingerprints: dict[str, str]

    def path(self, stage: str) -> str:
        """The file of a stage's output for this part."""
        return f"{FOLDER}/{self.part_id}/{stage}-{self.fingerprints[stage]}.parquet"

    def record_path(self, stage: str) -> str:
        """The record that says that the output is whole."""
        return f"{FOLDER}/{self.part_id}/{stage}-{self.fingerprints[stage]}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """What a stage left of a part. It is `final` when nothing in it waits for another try."""

    n_rows: int
    n_bytes: int
    sha256: str
    n_to_retry: int
    rejects: list[Reject]

    @property
    def is_final(self) -> bool:
        """Whether it is what it will always be."""
        return self.n_to_retry == 0


def make_part(members: Sequence[Member], recipes: Mapping[str, Recipe]) -> Part:
    """A part of these members, with the fingerprints of all it will become."""
    first = members[0]
    items = [member.item for member in members]
    prints = {ITEMS: ids.digest("items", [asdict(item) for item in items])}
    for name, recipe in recipes.items():
        prints[name] = fingerprint(name, recipe.version, recipe.matters, [prints[each] for each in recipe.inputs])
    return Part(
        part_id=first.part_id,
        shard_id=first.shard_id,
        source=first.item.source,
        split=first.item.split,
        n_items=len(items),
        fingerprints=prints,
    )


class Runner:
    """Runs stages on the parts of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def put_items(self, parts: Iterable[tuple[Part, Sequence[Item]]]) -> None:
        """Lays down what the first stage reads of each part."""
        with self.store.batch() as batch:
            for part, items in parts:
                if self.record(part, ITEMS) is None:
                    self._put(batch, part, ITEMS, StageResult(list(items), []), Item)

    def record(self, part: Part, stage: str) -> PartRecord | None:
        """The record of a stage's output for a part, or None where there is none or its file is gone or cut."""
        path = part.record_path(stage)
        if not self.store.exists(path):
            return None
        try:
            raw = json.loads(self.store.read_bytes(path))
            rejects = [Reject(**each) for each in raw.pop("rejects")]
            record = PartRecord(
                **{name: raw[name] for name in ("n_rows", "n_bytes", "sha256", "n_to_retry")}, rejects=rejects
            )
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"The record {self.store.at(path)} is damaged: {error}.", "Remove it and run again."
            ) from error
        whole = self.store.exists(part.path(stage)) and self.store.n_bytes(part.path(stage)) == record.n_bytes
        return record if whole else None

    def pending(self, stage: str, parts: Sequence[Part], on_found: OnPart = lambda *_: None) -> list[Part]:
        """The parts that lack the stage's output, or have one that another try may better; tells of the others."""
        lacking = []
        for part in parts:
            record = self.record(part, stage)
            if record is None or not record.is_final:
                lacking.append(part)
            else:
                on_found(stage, part, record)
        return lacking

    def finished(self, part: Part, stage: str) -> PartRecord:
        """The record of an output that must be there.

        Raises:
            StoreError: it is not.
        """
        record = self.record(part, stage)
        if record is None:
            raise StoreError(
                f"Part {part.part_id} has no output of stage {stage}.", "Run the same command again; it makes it."
            )
        return record

    def read(self, part: Part, stage: str, record_type: type[Record]) -> list[Record]:
        """A stage's output for a part, as records that may have fewer fields than the file has columns."""
        record = self.finished(part, stage)
        names = schema_of(record_type).names
        return from_table(self.store.read_table(part.path(stage), names, record.sha256), record_type)

    def run(self, part: Part, stage: Stage[Any]) -> PartRecord:
        """The stage's output for a part: what is recorded, or made now from its inputs."""
        done = self.record(part, stage.name)
        if done is not None and done.is_final:
            return done
        return self.keep(part, stage, stage.run(self.batch(part, stage)))

    def batch(self, part: Part, stage: StageDescription) -> list[tuple[Any, ...]]:
        """What a stage is given of a part."""
        inputs: list[list[Any]] = [
            self.read(part, name, record_type)
            for name, record_type in zip(stage.inputs, stage.input_types, strict=True)
        ]
        return joined(inputs)

    def keep(self, part: Part, stage: StageDescription, result: StageResult[Any]) -> PartRecord:
        """Records what a stage made of a part."""
        with self.store.batch() as batch:
            return self._put(batch, part, stage.name, result, stage.output_type)

    def _put(self, batch: Batch, part: Part, stage: str, result: StageResult[Any], record_type: type) -> PartRecord:
        written = batch.write_table(part.path(stage), to_table(result.outputs, record_type))
        record = PartRecord(
            n_rows=len(result.outputs),
            n_bytes=written.n_bytes,
            sha256=written.sha256,
            n_to_retry=result.n_to_retry,
            rejects=result.rejects,
        )
        text = json.dumps({"stage": stage, "fingerprint": part.fingerprints[stage], **asdict(record)}, indent=1)
        batch.write_bytes(part.record_path(stage), text.encode())
        return record


def joined(inputs: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """One tuple a dialogue that stands in every input, in the first input's order; a lone input as it is."""
    if len(inputs) == 1:
        return [(each,) for each in inputs[0]]
    others = [{each.dialogue_id: each for each in records} for records in inputs[1:]]
    return [
        (each, *(other[each.dialogue_id] for other in others))
        for each in inputs[0]
        if all(each.dialogue_id in other for other in others)
    ]
