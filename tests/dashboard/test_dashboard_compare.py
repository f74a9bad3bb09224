"""Two versions beside each other: what is counted, which dialogues differ, and their texts with marks."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from dashboard.timeline import DiffPiece
from dashboard.versions import Versions, open_versions
from data_schemas.records import AudioDialogue, Reject
from tests.support.dashboards import SCRIPT, client_of, dialogues, indexed, rejects, write_small
from tests.support.small_datasets import noisy_dialogue

PATH = "/compare?left=small&right=second"


def of_second(rows: list[list[AudioDialogue]]) -> list[list[AudioDialogue]]:
    """Another question of the first, another voice of the second, another form of the third; the fourth is gone."""
    (first, second), (third, _), rest = rows
    spoken_by = replace(second.provenance, voice_b="amy")
    return [
        [replace(first, question=f"{first.question} Two eggs?"), replace(second, provenance=spoken_by)],
        [replace(third, form="greeting")],
        rest,
        [noisy_dialogue(7, "validation")],
    ]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("compare")
    write_small(root / "small")
    gone = Reject(item_id="mine-3", source="mine", stage="speech", reason="misheard", detail=f"3 takes {SCRIPT}")
    write_small(root / "second", [*rejects()[:1], gone], of_second(dialogues()), "many eggs")
    return root


@pytest.fixture(scope="module")
def versions(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versions]:
    made = tmp_path_factory.mktemp("made")
    left, right = (indexed(root / name, made / f"it's {name}.duckdb") for name in ("small", "second"))
    with open_versions(left, right, ("default", "default")) as versions:
        yield versions
    left.close()
    right.close()


@pytest.fixture(scope="module")
def client(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with client_of(root, tmp_path_factory.mktemp("cache")) as client:
        while client.get(PATH).status_code == 202:
            pass
        yield client


def test_each_way_to_differ_is_counted(versions: Versions) -> None:
    differ = {"any": 6, "question": 1, "answer": 0, "spoken": 0, "oracles": 4, "form": 1, "split": 0, "sound": 1}
    assert versions.count() == differ | {"only_left": 1, "only_right": 1, "both": 4}
    groups, refused = (
        [(each.name, each.left, each.right, each.change) for each in found]
        for found in (versions.count_groups("split"), versions.count_rejects())
    )
    assert ("validation", "0", "1", "+1") in groups
    assert ("speech: misheard", "1", "1", "") in refused


def test_words_events_and_short_values_that_differ_are_told(versions: Versions) -> None:
    (found,) = versions.read_page("question", 1)
    (text,) = found.texts
    question = dialogues()[0][0].question
    assert (found.dialogue_id, text.name) == ("mine-0-v0", "question")
    assert (text.left, text.right) == (
        [DiffPiece(question, False)],
        [DiffPiece(question, False), DiffPiece("Two eggs?", True)],
    )
    for found in versions.read_page("oracles", 1):
        (event,) = found.events
        assert (event.t_s, event.left_level, event.right_level) == (0.4, 0, 0)
        assert [[(each.text, each.differs) for each in side] for side in (event.left, event.right)] == [
            [("a few", True), ("eggs", False)],
            [("many", True), ("eggs", False)],
        ]
    page = versions.read_page("any", 1)
    told = {each.dialogue_id: [(fact.name, fact.left, fact.right) for fact in each.facts] for each in page}
    assert told["mine-1-v0"] == [("voice of B", "–", "amy")]
    assert told["mine-2-v0"] == [("form", "plain", "greeting")]
    assert told["mine-0-v0"] == []


def test_a_dialogue_of_one_side_tells_why_the_other_has_none(versions: Versions) -> None:
    (gone,) = versions.read_page("only_left", 1)
    assert (gone.dialogue_id, gone.right) == ("mine-3-v0", None)
    assert gone.reject is not None
    assert gone.reject["reason"] == "misheard"
    (new,) = versions.read_page("only_right", 1)
    assert (new.dialogue_id, new.left, new.reject) == ("mine-7-v0", None, None)


def test_the_page_shows_texts_sounds_and_figures(client: TestClient) -> None:
    page = client.get(f"{PATH}&show=question").text
    assert "<mark>Two eggs?</mark>" in page
    for key in ("small", "second"):
        assert f'src="/datasets/{key}/dialogues/mine-0-v0/sound?of=' in page
        assert f'<option value="{key}" selected' in page
    assert '<tr><th scope="row">Dialogues</th><td class="n">5</td>' in page


def test_what_data_hold_is_text_there_too(client: TestClient) -> None:
    page = client.get(PATH).text
    assert SCRIPT not in page
    assert "3 takes &lt;script&gt;" in page


def test_pages_are_the_servers(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("dashboard.versions", "dashboard.pages.compare"):
        monkeypatch.setattr(f"{module}.PAGE_DIALOGUES", 4)
    first, second = (client.get(f"{PATH}&page={page}").text for page in (1, 2))
    assert (first.count("<article"), second.count("<article")) == (4, 2)
    assert 'page=2#changes">Next' in first
    assert "mine-7-v0" not in first
    assert "mine-7-v0" in second


def test_the_same_version_twice_is_told_to_be_the_same(client: TestClient) -> None:
    page = client.get("/compare?left=small&right=small").text
    assert "byte by byte" in page
    assert "No dialogue differs." in page


@pytest.mark.parametrize(
    ("query", "status"),
    [("left=small&right=nothing", 404), ("left=../small&right=small", 404), ("left=small", 200), ("", 200),
     ("left=small&right=second&show=1;drop", 400), ("left=small&right=second&page=0", 422)],
)  # fmt: skip
def test_other_versions_are_refused_and_none_is_a_choice(client: TestClient, query: str, status: int) -> None:
    assert client.get(f"/compare?{query}").status_code == status


def test_one_dataset_alone_says_what_to_do(root: Path, tmp_path: Path) -> None:
    with client_of(root / "small", tmp_path) as client:
        assert "two are needed" in client.get("/compare").text
