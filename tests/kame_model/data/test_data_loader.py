from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.train_runs import tiny_dataset
from data_schemas.config.training import DataConfig
from data_schemas.errors import ConfigError, StoreError
from kame_model.data.example import ExampleMaker
from kame_model.data.loader import ALONE, DialogueLoader, MicroBatch, Share
from kame_model.data.mixture import open_datasets
from kame_model.data.plan import BatchPlan, units_of
from kame_model.encode.token_dataset import TokenDataset


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_dataset(tmp_path_factory.mktemp("rows"), n_train=20)


@pytest.fixture(scope="module")
def opened(rows: Path) -> TokenDataset:
    return TokenDataset(str(rows))


def config_of(*folders: Path, **changes: Any) -> DataConfig:
    settings = {"datasets": [{"path": str(each)} for each in folders], "batch_frames": 300, "pool_batches": 2}
    return DataConfig.model_validate(settings | {"swap_share": 0.5, "correct_share": 0.3} | changes)


def loader_of(config: DataConfig, accumulation: int = 2, share: Share = ALONE, seed: int = 0) -> DialogueLoader:
    return DialogueLoader(open_datasets(config.datasets), config, seed, accumulation, share)


def same(one: MicroBatch, other: MicroBatch) -> bool:
    alike = all(
        torch.equal(getattr(one.batch, each.name), getattr(other.batch, each.name)) for each in fields(one.batch)
    )
    return alike and one.number == other.number and one.dialogue_ids == other.dialogue_ids


@pytest.mark.parametrize("n_steps", [1, 4, 9])
def test_a_loader_gone_on_with_gives_the_very_same_samples(rows: Path, n_steps: int) -> None:
    whole, killed, resumed = (loader_of(config_of(rows)) for _ in range(3))
    for _ in range(n_steps):
        whole.next_step()
        killed.next_step()
    resumed.load_state_dict(killed.state_dict())
    for _ in range(6):  # over the end of a round
        assert all(same(one, other) for one, other in zip(whole.next_step(), resumed.next_step(), strict=True))


@pytest.mark.parametrize("world", [2, 4])
def test_processes_share_what_one_alone_would_see(rows: Path, world: int) -> None:
    alone = loader_of(config_of(rows), accumulation=4)
    shares = [loader_of(config_of(rows), 4, Share(rank, world)) for rank in range(world)]
    for _ in range(3):
        together = sorted((each for loader in shares for each in loader.next_step()), key=lambda each: each.number)
        assert all(same(one, other) for one, other in zip(alone.next_step(), together, strict=True))


def test_worker_processes_change_nothing(rows: Path) -> None:
    here, elsewhere = loader_of(config_of(rows)), loader_of(config_of(rows, workers=1))
    for _ in range(3):
        assert all(same(one, other) for one, other in zip(here.next_step(), elsewhere.next_step(), strict=True))


def test_steps_that_processes_cannot_share_are_refused(rows: Path) -> None:
    with pytest.raises(ConfigError, match="3 micro-batches a step cannot be shared by 2"):
        loader_of(config_of(rows), 3, Share(0, 2))


def test_other_data_or_settings_of_it_are_not_gone_on_with(rows: Path) -> None:
    state = loader_of(config_of(rows)).state_dict()
    with pytest.raises(ConfigError, match="begun with other data"):
        loader_of(config_of(rows, swap_share=0.4)).load_state_dict(state)
    loader_of(config_of(rows, workers=1)).load_state_dict(state)  # who makes the batches does not matter


def test_an_epoch_meets_each_dialogue_once_and_only_those_of_its_split(rows: Path) -> None:
    config = config_of(rows)
    (dataset,) = open_datasets(config.datasets)
    plan = BatchPlan([dataset], config, seed=0)
    epochs = [Counter(unit.row for batch in plan.round(number) for (unit, _) in batch) for number in range(2)]
    training = {row for row, split in enumerate(dataset.splits) if split == "train"}
    assert epochs[0] == epochs[1] == Counter(training)
    orders = [[unit.row for batch in plan.round(number) for (unit, _) in batch] for number in range(2)]
    assert orders[0] != orders[1]


def test_both_speakers_may_be_learnt(rows: Path) -> None:
    config = config_of(rows, learn="both")
    (dataset,) = open_datasets(config.datasets)
    met = Counter((unit.row, unit.speaker) for batch in BatchPlan([dataset], config, 0).round(0) for (unit, _) in batch)
    assert len(met) == 2 * dataset.splits.count("train")
    maker = ExampleMaker([dataset], config, seed=0)
    of_a, of_b = (maker.judge(unit).example for unit in units_of(0, dataset, "validation", "both").units[:2])
    n = dataset.n_codebooks
    assert (of_a.columns[1 : 1 + n] == of_b.columns[1 + n :]).all()  # A's own voice is B's other


@settings(max_examples=25)
@given(batch_frames=st.integers(60, 600), pool_batches=st.integers(1, 5), seed=st.integers(0, 99))
def test_micro_batches_keep_within_their_frames_padding_included(
    rows: Path, opened: TokenDataset, batch_frames: int, pool_batches: int, seed: int
) -> None:
    config, dataset = config_of(rows, batch_frames=batch_frames, pool_batches=pool_batches), opened
    for batch in BatchPlan([dataset], config, seed).round(0):
        lengths = [int(dataset.lengths[unit.row]) + 1 for (unit, _) in batch]
        assert len(batch) == 1 or len(batch) * max(lengths) <= batch_frames


def test_datasets_are_mixed_by_weight_each_through_its_own_epochs(rows: Path, tmp_path: Path) -> None:
    other = tiny_dataset(tmp_path / "other", n_train=5)
    config = DataConfig.model_validate(
        {"datasets": [{"path": str(rows), "weight": 1.0}, {"path": str(other), "weight": 3.0}]}
    )
    plan = BatchPlan(open_datasets(config.datasets), config, seed=0)
    met = [planned for number in range(4) for batch in plan.round(number) for planned in batch]
    by_dataset = Counter(unit.dataset for (unit, _) in met)
    assert by_dataset[1] == 3 * by_dataset[0] == 75
    assert set(Counter(each for each in met).values()) == {1}  # the same row only in another epoch
    epochs = Counter(epoch for (unit, epoch) in met if unit.dataset == 1)
    assert max(epochs) == by_dataset[1] // 5 - (by_dataset[1] % 5 == 0)


def test_an_example_is_the_same_wherever_it_is_met(rows: Path) -> None:
    config = config_of(rows)
    datasets = open_datasets(config.datasets)
    planned = BatchPlan(datasets, config, 0).round(0)[0][0]
    here, there = (ExampleMaker(datasets, config, seed=0).train(planned, step=0) for _ in range(2))
    other_epoch = ExampleMaker(datasets, config, seed=0).train(planned._replace(epoch=1), step=0)
    assert (here.oracle == there.oracle).all()
    assert here.oracle.tolist() != other_epoch.oracle.tolist() or here.columns.shape != other_epoch.columns.shape


def test_validation_has_the_whole_oracle_and_beside_it_anothers(rows: Path) -> None:
    config = config_of(rows)
    (dataset,) = open_datasets(config.datasets)
    maker = ExampleMaker([dataset], config, seed=0)
    for unit in units_of(0, dataset, "validation", "a").units:
        judged, row = maker.judge(unit), dataset[unit.row]
        assert judged.example.oracle.tolist().count(dataset.text_card) == len(row.a.oracle)
        assert len(judged.wrong_oracle) == judged.example.n_positions
        assert judged.wrong_oracle.tolist() != judged.example.oracle.tolist()


def test_datasets_of_two_vocabularies_do_not_go_together(rows: Path, tmp_path: Path) -> None:
    other = tiny_dataset(tmp_path / "other", tokenizer_digest="another")
    with pytest.raises(ConfigError, match="differ in their vocabulary: made and another"):
        open_datasets(config_of(rows, other).datasets)


def test_datasets_of_two_codecs_do_not_go_together(rows: Path, tmp_path: Path) -> None:
    other = tiny_dataset(tmp_path / "other", card=64)
    with pytest.raises(ConfigError, match="size of the codebooks: 32 and 64"):
        open_datasets(config_of(rows, other).datasets)


def test_a_changed_byte_of_a_token_file_is_told(tmp_path: Path) -> None:
    folder = tiny_dataset(tmp_path / "rows")
    file = next(folder.rglob("*.arrow"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreError, match=f"{file.name} is not what was written"):
        open_datasets(config_of(folder).datasets)


def test_a_dataset_without_training_dialogues_is_refused(tmp_path: Path) -> None:
    folder = tiny_dataset(tmp_path / "rows", n_train=1)
    (dataset,) = open_datasets(config_of(folder).datasets)
    with pytest.raises(ConfigError, match="no dialogue of the split 'test'"):
        units_of(0, dataset, "test", "a")
