"""What the next run makes again and what it leaves alone: on doubles, through `run_refresh`."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from backends.chat.double import DoubleEngine
from data_schemas.config import OracleConfig, RefreshConfig, SpeechConfig
from data_schemas.errors import StoreError
from data_schemas.manifest import Manifest
from data_schemas.splits import choose_split, make_group_id
from flows.runs.record import RunRecord
from flows.runs.refresh import run_refresh
from pipelines.figures import Figures
from pipelines.run.stages import STAGES
from tests.support.runs import ITEMS, Silent, answers, assert_same, config_on_doubles, contents

pytestmark = pytest.mark.full

Files = dict[str, tuple[int, int]]
PROMPTS = Path(__file__).resolve().parents[3] / "pipelines" / "oracle" / "prompt_sets" / "v2.yaml"
AFTER_WORDING = set(STAGES[STAGES.index("speech") :])


@dataclass(frozen=True)
class World:
    """A folder with its own sources and a dataset made from them."""

    folder: Path

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def sources(self) -> tuple[Path, ...]:
        return (self.folder / "gsm8k.jsonl", self.folder / "mmlu_pro.jsonl")

    def config(self, workers: int = 1, **changes: Any) -> RefreshConfig:
        return config_on_doubles(self.out, workers, self.sources).model_copy(update=changes)

    def refresh(self, workers: int = 1, **changes: Any) -> tuple[RunRecord, Manifest, Figures]:
        return run_refresh(self.config(workers, **changes), Silent())

    def files(self) -> Files:
        """Inode and time of each file: neither stays when a file is written again."""
        paths = [path for path in self.out.rglob("*") if path.is_file()]
        stats = {str(path.relative_to(self.out)): path.stat() for path in paths}
        return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in stats.items()}

    def written_since(self, before: Files) -> set[str]:
        return {name for name, state in self.files().items() if before.get(name) != state}

    def parts(self, stage: str) -> list[Path]:
        return sorted(self.out.glob(f".store/parts/*/{stage}-*.parquet"))

    def shards(self) -> set[str]:
        return {str(path.relative_to(self.out)) for path in self.out.glob("data/*.parquet")}

    def oracles(self) -> set[str]:
        return {str(path.relative_to(self.out)) for path in self.out.glob("oracles/*/*.parquet")}

    def dialogue_ids(self, kind: str = "data") -> list[str]:
        files = sorted(self.out.glob(f"{kind}/**/*.parquet"))
        return [each for file in files for each in pq.read_table(file)["dialogue_id"].to_pylist()]


def stages_in(written: set[str]) -> set[str]:
    """The stages whose outputs are among these files."""
    return {Path(name).name.partition("-")[0] for name in written if name.startswith(".store/parts")}


def of_dataset(written: set[str]) -> set[str]:
    """The shards of data and oracles among these files."""
    return {name for name in written if name.startswith(("data/", "oracles/"))}


def append(file: Path, **row: object) -> None:
    """One more item at a source's end."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(row) + "\n")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("finished"))
    for file in world.sources:
        shutil.copy(ITEMS / file.name, file)
    world.refresh()
    return world


@pytest.fixture
def world(finished: World, tmp_path: Path) -> World:
    """A finished dataset that a test may spoil."""
    shutil.copytree(finished.folder, tmp_path / "world")
    return World(tmp_path / "world")


def test_a_second_run_asks_nothing_makes_nothing_and_gives_the_same_bytes(
    world: World, finished: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DoubleEngine, "serve", lambda self: pytest.fail("the chat model was started"))
    before = world.files()
    record, _, _ = world.refresh()
    written = world.written_since(before)
    assert record.chat.n_requests == 0
    assert stages_in(written) == set()
    assert of_dataset(written) == set()
    assert_same(world.out, finished.out)


def test_another_number_of_workers_gives_the_same_bytes(world: World, finished: World) -> None:
    shutil.rmtree(world.out)
    world.refresh(3)
    assert_same(world.out, finished.out)


def test_a_changed_prompt_makes_only_the_oracles_again(world: World) -> None:
    prompts = yaml.safe_load(PROMPTS.read_text(encoding="utf-8"))
    prompts["levels"][0] += " Be brief."
    file = world.folder / "prompts.yaml"
    file.write_text(yaml.safe_dump(prompts), encoding="utf-8")
    before, oracles_before, shards_before = world.files(), world.oracles(), world.shards()
    record, _, _ = world.refresh(oracle=OracleConfig(prompt=str(file)))
    written = world.written_since(before)
    assert stages_in(written) == {"oracle"}
    assert of_dataset(written) == world.oracles()
    assert world.shards() == shards_before
    assert world.oracles().isdisjoint(oracles_before)
    assert len(world.oracles()) == len(oracles_before)
    assert record.chat.n_requests > 0


def test_going_back_to_an_earlier_prompt_asks_nothing_and_gives_its_bytes(world: World, finished: World) -> None:
    world.refresh(oracle=OracleConfig(max_words=20))
    record, _, _ = world.refresh()
    assert record.chat.n_requests == 0
    ours, theirs = contents(world.out), contents(finished.out)
    del theirs["answers"]
    assert {name: ours.get(name) for name in theirs} == theirs


def test_a_change_of_speech_makes_speech_and_what_follows_again(world: World) -> None:
    before, ids_before = world.files(), world.dialogue_ids()
    world.refresh(speech=SpeechConfig(tts="double", voice_a="double_b"))
    written = world.written_since(before)
    assert stages_in(written) == AFTER_WORDING
    assert of_dataset(written) == world.shards() | world.oracles()
    assert sorted(world.dialogue_ids()) == sorted(ids_before)


def test_an_added_item_adds_one_part_and_one_shard_and_touches_no_old_file(world: World) -> None:
    before, held_before = world.files(), contents(world.out)
    append(world.sources[0], question="How many legs do two cats have?", answer="2*4 = 8 legs.\n#### 8")
    world.refresh()
    written = world.written_since(before)
    assert len({Path(name).parent for name in written if name.startswith(".store/parts")}) == 1
    assert stages_in(written) == {"items", *STAGES}
    assert len([name for name in written if name.startswith("data/")]) == 1
    assert len([name for name in written if name.startswith("oracles/")]) == 1
    held = contents(world.out)
    old = of_dataset(set(held_before)) | {name for name in held_before if name.startswith(".store/parts")}
    assert {name: held.get(name) for name in old} == {name: held_before[name] for name in old}


def test_an_item_corrected_at_its_source_makes_its_part_alone_again(world: World) -> None:
    before, shards_before = world.files(), world.shards()
    file = world.sources[1]
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows[0]["options"][rows[0]["answer_index"]] = "Sulphur dioxide"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    _, manifest, _ = world.refresh()
    written = world.written_since(before)
    assert len({Path(name).parent for name in written if name.startswith(".store/parts")}) == 1
    assert len(world.shards() - shards_before) == len(shards_before - world.shards()) == 1
    answers_now = [row for entry in manifest.select_kind("data") for row in _column(world.out / entry.path, "answer")]
    assert answers_now.count("Sulphur dioxide") == 1


def test_an_item_whose_question_is_corrected_into_another_split_leaves_the_one_it_was_in(world: World) -> None:
    """Splits are a pure function of the question, so that nobody trains on a test question."""
    file, ids_before = world.sources[1], sorted(world.dialogue_ids())
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    plants = ("moss", "ferns", "grass", "trees", "herbs", "shrubs", "vines", "palms", "reeds", "weeds", "crops", "ivy")
    split = config_on_doubles(world.out).split
    questions = (f"Think of {one} and of {other}. {rows[0]['question']}" for one in plants for other in plants)
    rows[0]["question"] = next(each for each in questions if choose_split(make_group_id(each), split) == "test")
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    _, manifest, _ = world.refresh()
    splits = {entry.path: set(_column(world.out / entry.path, "split")) for entry in manifest.select_kind("data")}
    assert splits == {entry.path: {entry.split} for entry in manifest.select_kind("data")}
    assert sorted(world.dialogue_ids()) == ids_before
    held = contents(world.out)
    world.refresh()
    assert contents(world.out) == held


@pytest.mark.parametrize("stage", ["items", *STAGES])
def test_a_part_that_was_cut_or_lost_is_made_again(world: World, finished: World, stage: str) -> None:
    cut, lost = world.parts(stage)[0], world.parts(stage)[-1]
    cut.write_bytes(cut.read_bytes()[:-7])
    lost.unlink()
    world.refresh()
    assert_same(world.out, finished.out)


@pytest.mark.parametrize("stage", ["mixing", "oracle"])
def test_a_part_with_a_flipped_bit_is_named_and_never_used(world: World, finished: World, stage: str) -> None:
    for shard in world.shards() | world.oracles():
        (world.out / shard).unlink()  # so that the parts are read again
    part = world.parts(stage)[0]
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    with pytest.raises(StoreError, match=f"{part.name}.*checksum differs.*Remove the file"):
        world.refresh()
    part.unlink()
    world.refresh()
    assert_same(world.out, finished.out)


def test_a_damaged_record_is_named(world: World, finished: World) -> None:
    record = world.parts("speech")[0].with_suffix(".json")
    record.write_text("{", encoding="utf-8")
    with pytest.raises(StoreError, match=f"{record.name} is damaged.*Remove it"):
        world.refresh()
    record.unlink()
    world.refresh()
    assert_same(world.out, finished.out)


def test_shards_that_were_cut_or_lost_and_oracles_are_made_again_without_asking(world: World, finished: World) -> None:
    first, *_, last = sorted(world.shards() | world.oracles())
    (world.out / first).write_bytes((world.out / first).read_bytes()[:-7])
    (world.out / last).unlink()
    record, _, _ = world.refresh()
    assert record.chat.n_requests == 0
    assert_same(world.out, finished.out)
    given = len(answers(world.out))
    for part in world.parts("oracle"):
        part.unlink()
    record, _, _ = world.refresh()
    assert (record.chat.n_requests, record.chat.n_from_cache) == (0, given)
    assert_same(world.out, finished.out)


def test_a_flagged_dialogue_is_left_out_of_the_next_refresh_and_comes_back(world: World, finished: World) -> None:
    ids_before, before = world.dialogue_ids(), world.files()
    flagged = ids_before[0]
    flags = world.out / "flags.jsonl"
    flags.write_text(json.dumps({"dialogue_id": flagged, "reason": "hiss", "time": "2026-01-01T00:00:00Z"}) + "\n")
    _, manifest, figures = world.refresh()
    assert sorted(world.dialogue_ids()) == sorted(set(ids_before) - {flagged})
    assert flagged not in world.dialogue_ids("oracles")
    assert manifest.counts.dialogues == len(ids_before) - 1
    assert stages_in(world.written_since(before)) == set()
    assert [n for (_, reason), n in figures.rejects.items() if reason == "flagged"] == [1]
    refused = [row for file in world.out.glob("rejects/**/*.parquet") for row in pq.read_table(file).to_pylist()]
    assert ("flagged", "flags", "hiss") in {(row["reason"], row["stage"], row["detail"]) for row in refused}
    flags.unlink()
    world.refresh()
    assert_same(world.out, finished.out)


def _column(file: Path, name: str) -> list[Any]:
    return list(pq.read_table(file, columns=[name])[name].to_pylist())
