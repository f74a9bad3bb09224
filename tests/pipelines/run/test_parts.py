"""Items keep their parts and shards for good, whatever is read later."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_schemas import splits
from data_schemas.config import PartConfig, SplitConfig
from data_schemas.records import Item, Reject
from data_schemas.store import Store
from pipelines.run.parts import Membership, MembershipFiles
from pipelines.sources.items import SourceReading
from tests.support.builders import make_item

SPLIT, PARTS = SplitConfig(), PartConfig(dialogues_per_part=2, parts_per_shard=2)


def item(number: int, question: str = "", split: str = "train") -> Item:
    asked = question or f"What is {number}?"
    return make_item(asked, "It.", item_id=f"mine-{number}", native_id=str(number), split=split)


def reject(number: int, reason: str = "empty_field") -> Reject:
    return Reject(item_id=f"mine-row-{number}", source="mine", stage="source", reason=reason, detail="")


def reading(n: int, rejects: int = 0) -> SourceReading:
    refused = [reject(n + k) for k in range(rejects)]
    return SourceReading([item(k) for k in range(n)], refused, n + rejects, is_whole=False)


@pytest.fixture
def book(tmp_path: Path) -> MembershipFiles:
    return MembershipFiles(Store(str(tmp_path)), "mine", SPLIT, PARTS)


def places(membership: Membership) -> dict[str, tuple[str, str]]:
    return {member.item.item_id: (member.part_id, member.shard_id) for member in membership.members}


def update(book: MembershipFiles, read: SourceReading, *contaminated: str) -> Membership:
    return book.update(read, frozenset(map(splits.normalise_question, contaminated)))


def test_items_fill_parts_and_parts_fill_shards(book: MembershipFiles) -> None:
    first, second = ("mine-train-p00000", "mine-train-s0000"), ("mine-train-p00001", "mine-train-s0000")
    expected = [first, first, second, second, ("mine-train-p00002", "mine-train-s0001")]
    assert places(update(book, reading(5))) == {f"mine-{k}": place for k, place in enumerate(expected)}


def test_each_split_has_parts_of_its_own(book: MembershipFiles) -> None:
    read = SourceReading([item(0), item(1, split="test"), item(2)], [], 3, is_whole=False)
    parts = [member.part_id for member in update(book, read).members]
    assert sorted(parts) == ["mine-test-p00000", "mine-train-p00000", "mine-train-p00000"]


def test_new_items_get_new_parts_and_shards_and_old_ones_keep_theirs(book: MembershipFiles) -> None:
    before = places(update(book, reading(3)))
    after = places(update(book, reading(5)))
    assert before.items() <= after.items()
    assert after["mine-3"] == after["mine-4"] == ("mine-train-p00002", "mine-train-s0001")


@given(limits=st.lists(st.integers(1, 12), min_size=1, max_size=5))
@pytest.mark.full
def test_whatever_is_read_in_any_order_none_moves(tmp_path_factory: pytest.TempPathFactory, limits: list[int]) -> None:
    book = MembershipFiles(Store(str(tmp_path_factory.mktemp("book"))), "mine", SPLIT, PARTS)
    seen: dict[str, tuple[str, str]] = {}
    for limit in limits:
        found = places(update(book, reading(limit)))
        assert seen.items() <= found.items()
        seen = found
        parts = [part for part, _ in found.values()]
        assert all(parts.count(part) <= 2 for part in parts)
    assert len(seen) == max(limits)


def test_a_smaller_limit_takes_nobody_away_nor_what_was_refused(book: MembershipFiles) -> None:
    whole = update(book, reading(5, rejects=1))
    assert update(book, reading(2)) == whole
    assert update(book, reading(5, rejects=1)) == whole


def test_a_corrected_item_stays_where_it_is_with_its_new_content(book: MembershipFiles) -> None:
    before = update(book, reading(3))
    corrected = [item(0), replace(item(1), answer="That."), item(2)]
    after = update(book, SourceReading(corrected, [], 3, is_whole=False))
    assert places(after) == places(before)
    assert [member.item.answer for member in after.members] == ["It.", "That.", "It."]


def test_another_revision_of_the_same_content_changes_nothing(book: MembershipFiles) -> None:
    before = update(book, reading(2))
    revised = [replace(item(k), revision="2") for k in range(2)]
    assert update(book, SourceReading(revised, [], 2, is_whole=False)) == before


def test_an_item_found_in_an_evaluation_set_later_is_dropped_and_counted_once(book: MembershipFiles) -> None:
    before = places(update(book, reading(4)))
    refused = replace(reject(1, "contaminated"), item_id="mine-1")
    now = SourceReading([item(0), item(2), item(3)], [refused], 4, is_whole=False)
    after = update(book, now, "What is 1?")
    assert places(after) == {name: place for name, place in before.items() if name != "mine-1"}
    assert [(each.item_id, each.reason) for each in after.rejects] == [("mine-1", "contaminated")]
    assert update(book, now, "What is 1?") == after


def test_an_item_beyond_the_limit_that_is_found_in_an_evaluation_set_stays_refused(book: MembershipFiles) -> None:
    update(book, reading(4))
    after = update(book, reading(2), "What is 3?")
    assert "mine-3" not in places(after)
    assert [(each.item_id, each.reason) for each in after.rejects] == [("mine-3", "contaminated")]
    assert update(book, reading(2), "What is 3?") == after


def test_numbers_of_parts_are_not_used_twice_after_a_drop(book: MembershipFiles) -> None:
    update(book, reading(3))
    after = update(book, SourceReading([item(1), item(2), item(3)], [], 3, is_whole=False), "What is 0?")
    assert places(after)["mine-3"] == ("mine-train-p00002", "mine-train-s0001")


def test_another_plan_takes_the_same_items_into_parts_of_its_own(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    update(MembershipFiles(store, "mine", SPLIT, PARTS), reading(3))
    wide = MembershipFiles(store, "mine", SPLIT, PartConfig(dialogues_per_part=3))
    after = update(wide, SourceReading([item(0)], [], 1, is_whole=False))
    assert [member.item.item_id for member in after.members] == ["mine-0", "mine-1", "mine-2"]
    assert all(member.part_id.endswith("-p00000") for member in after.members)
    assert wide.read_known() == after.members


def test_where_each_item_gives_more_dialogues_a_part_has_fewer_items_in_another_plan(tmp_path: Path) -> None:
    sizes = PartConfig(dialogues_per_part=16, parts_per_shard=2)
    for variants, n_items in ((1.0, 16), (1.9, 8), (8.0, 2)):
        book = MembershipFiles(Store(str(tmp_path / str(variants))), "mine", SPLIT, sizes, variants)
        parts = [part for part, _ in places(update(book, reading(32))).values()]
        assert {parts.count(part) for part in parts} == {n_items}
    store = Store(str(tmp_path))
    update(MembershipFiles(store, "mine", SPLIT, PARTS), reading(4))
    twice = update(MembershipFiles(store, "mine", SPLIT, PARTS, variants=2.0), reading(4))
    assert len({part for part, _ in places(twice).values()}) == 4


def test_rejects_of_a_whole_reading_replace_those_before(book: MembershipFiles) -> None:
    update(book, SourceReading([item(0)], [reject(1), reject(2)], 3, is_whole=True))
    assert update(book, SourceReading([item(0)], [], 1, is_whole=True)).rejects == []


def test_what_is_gone_from_a_source_that_was_read_whole_is_gone_and_told_until_it_is_back(
    book: MembershipFiles,
) -> None:
    update(book, reading(3))
    for _ in range(2):
        after = update(book, SourceReading([item(0), item(2)], [], 2, is_whole=True))
        assert [member.item.item_id for member in after.members] == ["mine-0", "mine-2"]
        assert [(each.item_id, each.reason) for each in after.rejects] == [("mine-1", "removed_at_source")]
    back = update(book, replace(reading(3), is_whole=True))
    assert [member.item.item_id for member in back.members] == ["mine-0", "mine-2", "mine-1"]
    assert back.rejects == []


def test_an_item_that_is_refused_now_is_told_once(book: MembershipFiles) -> None:
    update(book, reading(2))
    refused = replace(reject(1, "contaminated"), item_id="mine-1")
    after = update(book, SourceReading([item(0)], [refused], 2, is_whole=True))
    assert after.rejects == [refused]
