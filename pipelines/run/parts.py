"""Parts, the units of work, and the membership that records which items belong to which part.

The membership, one file per source, is recorded before any work and never changes for items that have a part. New items
make new parts and shards. An item whose content was corrected at its source stays in its part, and only that part is
made again. Only an item whose question now falls into another split leaves its part for a new one, since no split may
hold what belongs to another.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from data_schemas import ids, splits
from data_schemas.arrow import from_table, to_table
from data_schemas.config import PartConfig, SplitConfig
from data_schemas.fingerprint import compute_fingerprint
from data_schemas.records import Item, Reject
from data_schemas.store import Store
from pipelines.sources.items import STAGE, SourceReading
from pipelines.stage import Recipe, make_reject

FOLDER = ".store/parts"
ITEMS = "items"
MEMBERSHIP = ".store/membership"
_PLAN = b"kame_plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """About 16 dialogues, the unit of work and of resuming; `fingerprints` has one for each stage's output."""

    part_id: str
    shard_id: str
    source: str
    split: str
    n_items: int
    fingerprints: dict[str, str]

    def get_path(self, stage: str) -> str:
        """Returns the path of a stage's output for this part."""
        return f"{FOLDER}/{self.part_id}/{stage}-{self.fingerprints[stage]}.parquet"

    def get_record_path(self, stage: str) -> str:
        """Returns the path of the record of a stage's output, which exists if the output is complete."""
        return f"{FOLDER}/{self.part_id}/{stage}-{self.fingerprints[stage]}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """The result of a stage for a part. It is final if neither it nor an input of it waits for a retry.

    `open_inputs` has the checksum of each input that was not final, by the name of the stage that made it.
    `other_request_ids` is that of `StageResult`.
    """

    n_rows: int
    n_bytes: int
    sha256: str
    n_to_retry: int
    rejects: list[Reject]
    open_inputs: dict[str, str] = field(default_factory=dict)
    other_request_ids: list[str] = field(default_factory=list)

    @property
    def is_final(self) -> bool:
        """Whether a retry cannot change it."""
        return self.n_to_retry == 0 and not self.open_inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class PartMember:
    """An item with the part and the shard to which it belongs permanently."""

    item: Item
    part_id: str
    shard_id: str


@dataclass(frozen=True, slots=True)
class Membership:
    """The members of one source, in the order in which they were first read, and the rejects of its reading."""

    members: list[PartMember]
    rejects: list[Reject]


class MembershipFiles:
    """Reads and writes the membership of one source. If the plan (split, sizes) has changed, all items get new parts.

    Args:
        variants: mean number of dialogues made from an item; the more there are, the fewer items a part has.
    """

    def __init__(self, store: Store, source: str, split: SplitConfig, parts: PartConfig, variants: float = 1.0) -> None:
        self.store = store
        self.split = split
        self.parts = parts
        self.items_per_part = max(1, round(parts.dialogues_per_part / variants))
        sizes = parts.model_dump() | {"dialogues_per_part": self.items_per_part}
        self._plan = ids.digest(split.model_dump(), sizes)
        self._members_path = f"{MEMBERSHIP}/{source}.parquet"
        self._notes_path = f"{MEMBERSHIP}/{source}.json"

    def read_known(self) -> list[PartMember]:
        """Returns the recorded members; if split or sizes have changed since, they are assigned to parts again."""
        if not self.store.exists(self._members_path):
            return []
        table = self.store.read_table(self._members_path)
        members = from_table(table, PartMember)
        if (table.schema.metadata or {}).get(_PLAN) == self._plan.encode():
            return members
        items = [replace(each.item, split=splits.choose_split(each.item.group_id, self.split)) for each in members]
        return self._assign_parts([], items)

    def update(self, reading: SourceReading, contaminated: frozenset[str]) -> Membership:
        """Updates the membership with what was read now, writes it, and returns it with its rejects.

        Items that were read earlier and not now keep their place if a limit stopped the reading; if the whole source
        was read, or is known to lack them, they are removed from it, and from the dataset. Contaminated items are
        removed in any case; an item whose split has changed gets a new place.
        """
        known = self.read_known()
        read = {item.item_id: item for item in reading.items}
        refreshed = [(member, _refresh_member(member, read)) for member in known]
        staying = [now for was, now in refreshed if now.item.split == was.item.split]  # others are treated as new
        in_source = frozenset(read) if reading.is_whole else reading.ids_there
        gone = [each for each in staying if in_source is not None and each.item.item_id not in in_source]
        staying = [each for each in staying if in_source is None or each.item.item_id in in_source]
        kept, dropped = _drop_contaminated(contaminated, staying)
        there = {member.item.item_id for member in staying}
        members = kept + self._assign_parts(known, [item for item in reading.items if item.item_id not in there])
        rejects = self._collect_rejects(
            reading, [*dropped, *(_make_removed_reject(each.item) for each in gone)], members
        )
        table = to_table(members, PartMember)
        metadata = {**(table.schema.metadata or {}), _PLAN: self._plan.encode()}
        self.store.write_table(self._members_path, table.replace_schema_metadata(metadata))
        return Membership(members, rejects)

    def _assign_parts(self, known: Sequence[PartMember], items: Sequence[Item]) -> list[PartMember]:
        """Returns the items as members of new parts and shards, numbered after those of `known`."""
        by_split: dict[str, list[Item]] = defaultdict(list)
        for item in items:
            by_split[item.split].append(item)
        n_parts = _find_next_numbers(known, "part_id")
        n_shards = _find_next_numbers(known, "shard_id")
        per_part, per_shard = self.items_per_part, self.parts.parts_per_shard
        new = {}
        for split, of_split in by_split.items():
            for position, item in enumerate(of_split):
                part = position // per_part
                stem = f"{item.source}-{split}"
                new[item.item_id] = PartMember(
                    item=item,
                    part_id=f"{stem}-p{n_parts[split] + part:05d}",
                    shard_id=f"{stem}-s{n_shards[split] + part // per_shard:04d}",
                )
        return [new[item.item_id] for item in items]

    def _collect_rejects(
        self, reading: SourceReading, dropped: Sequence[Reject], members: Sequence[PartMember]
    ) -> list[Reject]:
        """Records and returns the rejects of reading and of dropped items, with those of earlier runs that still apply.

        Rejects of rows that this run did not read because of its limit still apply.

        They are written before the members are, so that a run killed in between drops the same items again.
        """
        notes: dict[str, Any] = {"n_rows": 0, "refused": [], "dropped": []}
        if self.store.exists(self._notes_path):
            notes = json.loads(self.store.read_bytes(self._notes_path))
        refusals = list(reading.rejects)
        if not reading.is_whole and notes["n_rows"] > reading.n_rows:
            read_now = set(refusals)
            refusals += [each for each in (Reject(**raw) for raw in notes["refused"]) if each not in read_now]
            if reading.ids_there is not None:
                refusals = [each for each in refusals if each.item_id in reading.ids_there]
        there = {member.item.item_id for member in members}
        accounted = {each.item_id for each in refusals} | there
        away = {each.item_id: each for each in (*(Reject(**raw) for raw in notes["dropped"]), *dropped)}
        still_away = [each for each in away.values() if each.item_id not in accounted]
        notes = {
            "n_rows": reading.n_rows if reading.is_whole else max(notes["n_rows"], reading.n_rows),
            "refused": [asdict(each) for each in refusals],
            "dropped": [asdict(each) for each in still_away],
        }
        self.store.write_bytes(self._notes_path, json.dumps(notes, indent=1).encode())
        return [each for each in refusals if each.item_id not in there or each.reason == "duplicate"] + still_away


def make_part(members: Sequence[PartMember], recipes: Mapping[str, Recipe]) -> Part:
    """Makes the part that has these members, with a fingerprint for the output of each stage in `recipes`."""
    first = members[0]
    items = [member.item for member in members]
    prints = {ITEMS: ids.digest("items", [asdict(item) for item in items])}
    for name, recipe in recipes.items():
        prints[name] = compute_fingerprint(
            name, recipe.version, recipe.fingerprint_fields, [prints[each] for each in recipe.inputs]
        )
    return Part(
        part_id=first.part_id,
        shard_id=first.shard_id,
        source=first.item.source,
        split=first.item.split,
        n_items=len(items),
        fingerprints=prints,
    )


def _refresh_member(member: PartMember, read: dict[str, Item]) -> PartMember:
    """Returns the member with its item as read now; unchanged if it was not read, or only its revision differs."""
    now = read.get(member.item.item_id)
    if now is None or replace(now, revision=member.item.revision) == member.item:
        return member
    return replace(member, item=now)


def _drop_contaminated(
    contaminated: frozenset[str], members: Iterable[PartMember]
) -> tuple[list[PartMember], list[Reject]]:
    """Returns the members whose questions are in no evaluation set, and the rejects of the others."""
    kept, dropped = [], []
    for member in members:
        if splits.normalise_question(member.item.question) not in contaminated:
            kept.append(member)
            continue
        dropped.append(
            make_reject(member.item, STAGE, "contaminated", "stands in an evaluation set that was added later")
        )
    return kept, dropped


def _make_removed_reject(item: Item) -> Reject:
    """Makes the reject of an item that its source no longer has."""
    return make_reject(item, STAGE, "removed_at_source", "stood in the source when it was read before")


def _find_next_numbers(known: Sequence[PartMember], field: str) -> Counter[str]:
    """Returns the next free number of a part or shard in each split; `field` is `part_id` or `shard_id`."""
    greatest: Counter[str] = Counter()
    for member in known:
        number = int(getattr(member, field).rsplit("-", 1)[1][1:]) + 1
        greatest[member.item.split] = max(greatest[member.item.split], number)
    return greatest
