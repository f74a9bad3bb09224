"""Stages that ask a chat model: one client for all parts, several at once, each recorded when complete."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from backends.chat.protocol import ChatClient, ChatReply
from data_schemas.errors import BackendError
from data_schemas.records import Item
from data_schemas.store import Store
from pipelines.asking import gather_all
from pipelines.run.execute import Runner, count_parts_at_once, run_asking
from pipelines.run.parts import Part, PartMember, PartRecord, make_part
from pipelines.stage import StageResult, make_recipes
from tests.support.builders import make_item

N_ITEMS = 4


class Wording:
    """Asks once for each item and writes the answer into it."""

    name: ClassVar[str] = "wording"
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[str, ...]] = ("items",)
    input_types: ClassVar[tuple[type, ...]] = (Item,)
    output_type: ClassVar[type] = Item

    def get_fingerprint_fields(self) -> dict[str, Any]:
        return {}

    async def run_with(self, batch: Sequence[tuple[Item]], client: ChatClient) -> StageResult[Item]:
        replies = await gather_all([client.ask({"question": item.question}) for (item,) in batch])
        return StageResult([replace(i, answer=r.text) for (i,), r in zip(batch, replies, strict=True)], [])


class Client:
    """A model with so many places; answers take twenty to forty turns of the loop, `n_busy` is noted in each."""

    def __init__(self, n_places: int, answer: Callable[[str], str] = str.upper) -> None:
        self.places = asyncio.Semaphore(n_places)
        self.answer = answer
        self.asked: list[str] = []
        self.n_busy: list[int] = []
        self.n_now = 0
        self.n_opened = 0

    async def ask(self, payload: dict[str, Any], attempt: int = 0) -> ChatReply:
        async with self.places:
            self.n_now += 1
            self.asked.append(payload["question"])
            try:
                for _ in range(20 + 5 * (len(self.asked) % 5)):
                    await asyncio.sleep(0)
                    self.n_busy.append(self.n_now)
                return ChatReply(self.answer(payload["question"]), "id", 1, 0, 1, from_cache=False)
            finally:
                self.n_now -= 1

    @asynccontextmanager
    async def open(self) -> AsyncIterator[ChatClient]:
        self.n_opened += 1
        yield self


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(Store(str(tmp_path)))


@pytest.fixture
def parts(runner: Runner) -> list[Part]:
    made = []
    for number in range(6):
        items = [make_item(f"part {number} item {n}", item_id=f"mine-{number}-{n}") for n in range(N_ITEMS)]
        members = [PartMember(item=item, part_id=f"p{number}", shard_id="s0") for item in items]
        part = make_part(members, make_recipes({"wording": Wording()}))
        runner.put_items([(part, items)])
        made.append(part)
    return made


def run(runner: Runner, parts: Sequence[Part], client: Client, n_at_once: int) -> list[str]:
    done: list[str] = []

    def on_part(stage: str, part: Part, record: PartRecord) -> None:
        assert runner.read_finished(part, "wording") == record
        done.append(part.part_id)

    run_asking(runner, Wording(), parts, client.open, n_at_once, on_part)
    return done


def test_every_part_is_recorded_with_what_was_answered(runner: Runner, parts: list[Part]) -> None:
    client = Client(n_places=3)
    assert sorted(run(runner, parts, client, n_at_once=2)) == [part.part_id for part in parts]
    for part in parts:
        asked = [item.question.upper() for item in runner.read(part, "items", Item)]
        assert [item.answer for item in runner.read(part, "wording", Item)] == asked
    assert client.n_opened == 1


def test_places_stay_filled_across_the_borders_of_parts(runner: Runner, parts: list[Part]) -> None:
    n_places = 8
    client, one_by_one = Client(n_places), Client(n_places)
    run(runner, parts, client, count_parts_at_once(n_places, N_ITEMS))
    while_others_wait = client.n_busy[: len(client.n_busy) // 2]
    assert sum(while_others_wait) >= 0.9 * n_places * len(while_others_wait)
    run(runner, parts, one_by_one, n_at_once=1)
    assert max(one_by_one.n_busy) == N_ITEMS


def test_requests_of_a_part_stand_beside_each_other(runner: Runner, parts: list[Part]) -> None:
    client = Client(n_places=2)
    run(runner, parts, client, n_at_once=3)
    assert [question.split()[1] for question in client.asked] == [str(n) for n in range(6) for _ in range(N_ITEMS)]


@pytest.mark.parametrize(("n_in_flight", "n_parts"), [(1, 1), (8, 1), (16, 2), (64, 8), (65, 9)])
def test_as_many_parts_are_in_progress_as_the_places_need(n_in_flight: int, n_parts: int) -> None:
    assert count_parts_at_once(n_in_flight, dialogues_per_part=16) == n_parts


def test_an_error_ends_the_others_and_what_was_recorded_before_stays(runner: Runner, parts: list[Part]) -> None:
    def answer(question: str) -> str:
        if question == "part 3 item 0":
            raise BackendError("It is gone.")
        return "fine"

    client = Client(n_places=1, answer=answer)
    with pytest.raises(BackendError, match="gone"):
        run(runner, parts, client, n_at_once=2)
    recorded = [part.part_id for part in parts if runner.read_record(part, "wording")]
    assert recorded == ["p0", "p1", "p2"]
    assert client.n_now == 0
    again = Client(n_places=1)
    assert run(runner, [part for part in parts if part.part_id not in recorded], again, 2) == ["p3", "p4", "p5"]


def test_nobody_is_asked_for_no_parts(runner: Runner) -> None:
    client = Client(n_places=1)
    assert run(runner, [], client, n_at_once=1) == []
    assert client.n_opened == 0


async def test_the_first_error_is_raised_as_it_is_and_all_works_have_ended() -> None:
    ended: list[int] = []

    async def work(number: int) -> int:
        try:
            for _ in range(number):
                await asyncio.sleep(0)
            if number == 3:
                raise BackendError("It is gone.")
            return number
        finally:
            ended.append(number)

    with pytest.raises(BackendError):
        await gather_all([work(number) for number in (1, 3, 50)])
    assert sorted(ended) == [1, 3, 50]
    assert await gather_all([work(2), work(1)]) == [2, 1]
