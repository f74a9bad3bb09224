"""What becomes of questions with a picture: described, asked again, or rejected with the reason."""

import asyncio
import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.chat.protocol import ChatReply, Endpoint
from data_schemas.config import SourceConfig, SplitConfig
from data_schemas.errors import RequestError
from data_schemas.records import Item
from pipelines.pictures.stage import MAX_ATTEMPTS, PicturesStage, PictureUnread, check_description
from pipelines.sources.items import read_items
from pipelines.stage import StageResult
from tests.support.builders import make_item

SEES = Endpoint(name="test", base_url="", model="sees", model_digest="1")
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
STANDS_ALONE = make_item("What is the capital of France?", "Paris", item_id="a", picture="a.png")
NEEDS = make_item(
    "What does the cartoon below mock?", "tax collectors", item_id="b", picture="b.png", picture_digest="d"
)


class Client:
    """Answers by a function of the attempt; keeps what it was asked."""

    def __init__(self, answer: Callable[[int], str | RequestError]) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    async def ask(self, payload: dict[str, Any], attempt: int = 0) -> ChatReply:
        self.asked.append(payload)
        said = self.answer(attempt)
        if isinstance(said, RequestError):
            raise said
        return ChatReply(said, f"r{len(self.asked)}", 1, 0, 1, from_cache=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b.png").write_bytes(PNG)
    return tmp_path


def run(folder: Path, client: Client | None, *items: Item) -> StageResult[Item]:
    stage = PicturesStage({"mine": str(folder)}, SEES if client else None)
    batch = [(item,) for item in items]
    return stage.run(batch) if client is None else asyncio.run(stage.run_with(batch, client))


def test_only_what_does_not_stand_alone_is_asked_about(folder: Path) -> None:
    client = Client(lambda _: "A fat man weighs sacks of coins.")
    result = run(folder, client, STANDS_ALONE, NEEDS)
    assert [item.picture_text for item in result.outputs] == [None, "A fat man weighs sacks of coins."]
    assert (result.rejects, len(client.asked)) == ([], 1)
    picture, text = client.asked[0]["messages"][1]["content"]
    assert picture["image_url"]["url"] == "data:image/png;base64," + base64.b64encode(PNG).decode()
    assert NEEDS.question in text["text"]


def test_without_a_model_all_pass_as_they_are(folder: Path) -> None:
    assert run(folder, None, STANDS_ALONE, NEEDS).outputs == [STANDS_ALONE, NEEDS]


def test_a_description_that_cannot_be_used_is_asked_for_again(folder: Path) -> None:
    client = Client(lambda attempt: "Tax collectors weigh coins." if attempt < 2 else "Two men weigh coins.")
    result = run(folder, client, NEEDS)
    assert [item.picture_text for item in result.outputs] == ["Two men weigh coins."]
    assert len({(payload["temperature"], payload["seed"]) for payload in client.asked}) == 3


def test_a_model_that_never_says_anything_usable_costs_a_reject(folder: Path) -> None:
    client = Client(lambda _: "")
    result = run(folder, client, NEEDS)
    assert (result.outputs, len(client.asked), result.n_to_retry) == ([], MAX_ATTEMPTS, 0)
    assert [reject.reason for reject in result.rejects] == ["picture_unread"]


def test_a_request_that_failed_is_for_a_later_run(folder: Path) -> None:
    client = Client(lambda _: RequestError("no answer", "ask later"))
    result = run(folder, client, NEEDS)
    assert ([reject.reason for reject in result.rejects], result.n_to_retry) == (["picture_unread"], 1)
    assert len(client.asked) == 1, "the client has tried as often as it may"


@pytest.mark.parametrize(
    ("picture", "source", "why"),
    [("gone.png", "mine", "no such picture"), ("b.tiff", "mine", "no such picture"), ("b.png", "other", "no folder")],
)
def test_a_picture_that_is_not_there_is_a_reject(folder: Path, picture: str, source: str, why: str) -> None:
    digest = "d" if picture.endswith("tiff") else None
    item = make_item("What does the cartoon below mock?", "it", picture=picture, source=source, picture_digest=digest)
    result = run(folder, Client(lambda _: "x"), item)
    assert [reject.reason for reject in result.rejects] == ["picture_missing"]
    assert why in result.rejects[0].detail


@pytest.mark.parametrize(
    ("raw", "why"),
    [("", "blank"), ("word " * 61, "61 words"), ("They are Tax Collectors.", "gives the answer"), ("∮ §§", "cannot")],
)
def test_what_makes_a_description_useless(raw: str, why: str) -> None:
    with pytest.raises(PictureUnread, match=why):
        check_description(raw, "tax collectors")


def test_identity_depends_on_the_model_and_not_on_the_folder() -> None:
    assert PicturesStage({"mine": "/a"}, SEES).matters() == PicturesStage({"mine": "/b"}, SEES).matters()
    assert PicturesStage({}, SEES).matters() != PicturesStage({}, None).matters()


def test_another_picture_in_its_place_is_another_item(tmp_path: Path) -> None:
    row = {"id": "1", "pic_path": "a.png", "question": "What is mocked below?", "correct_answer": "A"}
    (tmp_path / "rows.jsonl").write_text(json.dumps({**row, "options": {"A": "It", "B": "Them"}}), encoding="utf-8")
    source = SourceConfig(name="hssbench", path=str(tmp_path / "rows.jsonl"), pictures=str(tmp_path))
    found = []
    for content in (None, PNG, PNG + b"more"):
        if content is not None:
            (tmp_path / "a.png").write_bytes(content)
        found += [item.picture_digest for item in read_items(source, None, SplitConfig()).items]
    assert found[0] is None
    assert len(set(found)) == 3


@pytest.fixture
def outside(folder: Path) -> Path:
    """A folder of pictures beside a picture that is none of them, with links to that one."""
    inner = folder / "shots"
    inner.mkdir()
    (inner / "b.png").write_bytes(PNG)
    (inner / "link.png").symlink_to(folder / "b.png")
    (inner / "linked").symlink_to(folder)
    (inner / "inside.png").symlink_to(inner / "b.png")
    (inner / "loop.png").symlink_to(inner / "loop.png")
    return inner


@pytest.mark.parametrize(
    "picture",
    ["../b.png", "{folder}/b.png", "link.png", "linked/b.png", "loop.png", "a\0.png", f"{'a' * 300}.png", ".", ""],
)
def test_no_file_outside_the_folder_is_read_or_sent(outside: Path, picture: str) -> None:
    named = picture.format(folder=outside.parent)
    row = {"id": "1", "pic_path": named, "question": "What is mocked below?", "correct_answer": "A"}
    rows = outside / "rows.jsonl"
    rows.write_text(json.dumps({**row, "options": {"A": "It", "B": "Them"}}), encoding="utf-8")
    source = SourceConfig(name="hssbench", path=str(rows), pictures=str(outside))
    assert [item.picture_digest for item in read_items(source, None, SplitConfig()).items] == [None]
    client = Client(lambda _: "Two men weigh coins.")
    result = run(outside, client, replace(NEEDS, picture=named))  # a digest says it was there once
    assert (result.outputs, client.asked) == ([], [])
    assert [reject.reason for reject in result.rejects] == ["picture_missing"]


@pytest.mark.parametrize("picture", ["b.png", "../shots/b.png", "inside.png"])
def test_a_picture_of_the_folder_is_sent_however_it_is_named(outside: Path, picture: str) -> None:
    client = Client(lambda _: "Two men weigh coins.")
    assert len(run(outside, client, replace(NEEDS, picture=picture)).outputs) == 1
