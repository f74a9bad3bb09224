"""What becomes of questions with a picture: described, asked again, or rejected with the reason."""

import asyncio
import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from backends.chat.protocol import Endpoint
from data_schemas.config import SourceConfig, SplitConfig
from data_schemas.errors import RequestError
from data_schemas.records import Item
from pipelines.pictures.stage import MAX_ATTEMPTS, PicturesStage, PictureUnread, check_description
from pipelines.sources.items import read_items
from pipelines.stage import StageResult
from tests.support.builders import make_item
from tests.support.oracle_dialogues import Scripted

SEES = Endpoint(name="test", base_url="", model="sees", model_digest="1")
PNG = b"\x89PNG\r\n\x1a\n and what is a picture"
STANDS_ALONE = make_item("What is the capital of France?", "Paris", item_id="a", picture="a.png")
MOCKS = "What does the cartoon below mock?"
NEEDS = make_item(MOCKS, "tax collectors", item_id="b", picture="b.png", picture_digest="d")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b.png").write_bytes(PNG)
    return tmp_path


def run(folder: Path, client: Scripted | None, *items: Item) -> StageResult[Item]:
    stage = PicturesStage({"mine": str(folder)}, SEES if client else None)
    batch = [(item,) for item in items]
    return stage.run(batch) if client is None else asyncio.run(stage.run_with(batch, client))


def test_only_what_does_not_stand_alone_is_asked_about_and_nothing_without_a_model(folder: Path) -> None:
    client = Scripted(lambda *_: "A fat man weighs sacks of coins.")
    result = run(folder, client, STANDS_ALONE, NEEDS)
    assert [item.picture_text for item in result.outputs] == [None, "A fat man weighs sacks of coins."]
    assert (result.rejects, len(client.asked)) == ([], 1)
    picture, text = client.asked[0][0]["messages"][1]["content"]
    assert picture["image_url"]["url"] == "data:image/png;base64," + base64.b64encode(PNG).decode()
    assert NEEDS.question in text["text"]
    assert run(folder, None, STANDS_ALONE, NEEDS).outputs == [STANDS_ALONE, NEEDS]


def test_a_description_that_cannot_be_used_is_asked_for_again_and_then_a_reject(folder: Path) -> None:
    client = Scripted(lambda _, attempt: "Tax collectors weigh coins." if attempt < 2 else "Two men weigh coins.")
    result = run(folder, client, NEEDS)
    assert [item.picture_text for item in result.outputs] == ["Two men weigh coins."]
    assert len({(payload["temperature"], payload["seed"]) for payload, _ in client.asked}) == 3
    client = Scripted(lambda *_: "")
    result = run(folder, client, NEEDS)
    assert (result.outputs, len(client.asked), result.n_to_retry) == ([], MAX_ATTEMPTS, 0)
    assert [reject.reason for reject in result.rejects] == ["picture_unread"]


def test_a_request_that_failed_is_for_a_later_run(folder: Path) -> None:
    client = Scripted(lambda *_: RequestError("no answer", "ask later"))
    result = run(folder, client, NEEDS)
    assert ([reject.reason for reject in result.rejects], result.n_to_retry) == (["picture_unread"], 1)
    assert len(client.asked) == 1, "the client has tried as often as it may"


@pytest.mark.parametrize(
    ("picture", "source", "why"),
    [("gone.png", "mine", "no such picture"), ("b.tiff", "mine", "no such picture"), ("b.png", "other", "no folder")],
)
def test_a_picture_that_is_not_there_is_a_reject(folder: Path, picture: str, source: str, why: str) -> None:
    digest = "d" if picture.endswith("tiff") else None
    item = make_item(MOCKS, "it", picture=picture, source=source, picture_digest=digest)
    result = run(folder, Scripted(lambda *_: "x"), item)
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
    assert (
        PicturesStage({"mine": "/a"}, SEES).get_fingerprint_fields()
        == PicturesStage({"mine": "/b"}, SEES).get_fingerprint_fields()
    )
    assert PicturesStage({}, SEES).get_fingerprint_fields() != PicturesStage({}, None).get_fingerprint_fields()


def read_digests(folder: Path, picture: str) -> list[str | None]:
    """Digests of the items of a source of one row with this picture."""
    row = {"id": "1", "pic_path": picture, "question": "What is mocked below?", "correct_answer": "A"}
    (folder / "rows.jsonl").write_text(json.dumps({**row, "options": {"A": "It", "B": "Them"}}), encoding="utf-8")
    source = SourceConfig(name="hssbench", path=str(folder / "rows.jsonl"), pictures=str(folder))
    return [item.picture_digest for item in read_items(source, None, SplitConfig()).items]


def test_another_picture_in_its_place_is_another_item(tmp_path: Path) -> None:
    found = []
    for content in (None, PNG, PNG + b"more"):
        if content is not None:
            (tmp_path / "a.png").write_bytes(content)
        found += read_digests(tmp_path, "a.png")
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
    assert read_digests(outside, named) == [None]
    client = Scripted(lambda *_: "Two men weigh coins.")
    result = run(outside, client, replace(NEEDS, picture=named))  # a digest says it was there once
    assert (result.outputs, client.asked) == ([], [])
    assert [reject.reason for reject in result.rejects] == ["picture_missing"]


@pytest.mark.parametrize("picture", ["b.png", "../shots/b.png", "inside.png"])
def test_a_picture_of_the_folder_is_sent_however_it_is_named(outside: Path, picture: str) -> None:
    client = Scripted(lambda *_: "Two men weigh coins.")
    assert len(run(outside, client, replace(NEEDS, picture=picture)).outputs) == 1
