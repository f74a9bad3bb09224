"""Oracles in whole runs on doubles: other versions beside the first, and dialogues that got none."""

import shutil
from pathlib import Path

import pytest

from data_schemas.config import OracleConfig, RefreshConfig
from data_schemas.reader import DatasetReader, read_manifest
from data_schemas.store import Store
from flows.runs.refresh import run_refresh
from pipelines.figures import collect_figures
from pipelines.oracle.random_answers import ONLY_ITEM
from pipelines.quality.check import check
from tests.support.runs import Silent, config_on_doubles

pytestmark = pytest.mark.full

RANDOM = OracleConfig(simulator="random", version="random")


def config(out: Path, oracle: OracleConfig) -> RefreshConfig:
    on_doubles = config_on_doubles(out)
    gate = on_doubles.gate.model_copy(update={"asr": "none"})
    return on_doubles.model_copy(update={"oracle": oracle, "gate": gate})


@pytest.fixture(scope="module")
def by_random(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset whose only oracles are random answers; in parts of two, some with one dialogue, one of which is alone
    in its source and split."""
    out = tmp_path_factory.mktemp("random") / "dataset"
    run_refresh(config(out, RANDOM), Silent())
    return out


def test_dialogues_whose_oracles_were_refused_have_a_reject_and_are_no_fault(by_random: Path) -> None:
    figures = collect_figures(DatasetReader(str(by_random)))
    n_refused = sum(n for (_, reason), n in figures.rejects.items() if reason == ONLY_ITEM)
    assert n_refused == 1, "others that are alone in their part take from another one"
    assert sum(figures.simulators.values()) == figures.n_dialogues - n_refused
    assert set(figures.simulators) == {("random", "random", "random", "random", "none")}
    assert check(str(by_random)) == []


def test_a_version_for_some_dialogues_forgets_no_reject_of_the_one_before(by_random: Path, tmp_path: Path) -> None:
    out = tmp_path / "dataset"
    shutil.copytree(by_random, out)

    def refuses_the_only_item(**oracle: float) -> bool:
        run_refresh(config(out, OracleConfig.model_validate(oracle)), Silent())
        assert check(str(out)) == []
        return any(reason == ONLY_ITEM for _, reason in collect_figures(DatasetReader(str(out))).rejects)

    assert refuses_the_only_item(share_to=0.3)
    once = read_manifest(Store(str(out)))
    assert refuses_the_only_item(share_to=0.3)
    assert read_manifest(Store(str(out))) == once
    assert not refuses_the_only_item(), "all have oracles now"


def test_another_simulator_adds_a_folder_and_touches_no_sound(by_random: Path) -> None:
    def sounds() -> dict[str, tuple[int, int]]:
        states = {path.name: path.stat() for path in (by_random / "data").iterdir()}
        return {name: (state.st_ino, state.st_mtime_ns) for name, state in states.items()}

    before = sounds()
    run_refresh(config(by_random, OracleConfig(interval_s=2.0, both_directions=True)), Silent())
    assert sounds() == before
    assert sorted(path.name for path in (by_random / "oracles").iterdir()) == ["default", "random"]
    assert check(str(by_random)) == []
    assert set(collect_figures(DatasetReader(str(by_random))).simulators) == {
        ("default", "llm", "double", "double", "v2"),
        ("random", "random", "random", "random", "none"),
    }
