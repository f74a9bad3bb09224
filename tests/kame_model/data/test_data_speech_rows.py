import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_schemas.config.training import DataConfig, SharesConfig
from kame_model.data.batch_plan import BatchPlan, PlannedExample, RowKind, make_units
from kame_model.data.example import ExampleMaker
from kame_model.data.loader import Loader, RowSource
from kame_model.data.mixture import open_datasets
from kame_model.data.speech_rows import SpeechRows
from kame_model.encode.token_dataset import TokenDataset
from kame_model.frames.batch import Example
from kame_model.frames.ids import PADDING_ID
from tests.support.made_rows import made_with, make_row, make_speech_row
from tests.support.token_rows import write_token_rows
from tests.support.train_runs import tiny_dataset

BY = made_with()
_BEGINS = {"dialogues": "made", "speech": "speech"}


@pytest.fixture(scope="module")
def dialogues(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_dataset(tmp_path_factory.mktemp("dialogues"), n_train=20)


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("speech")
    forms = ["sentence", "words", "numbers", "lead", "stall"]
    train = [make_speech_row(number, "train", BY, forms[number % 5]) for number in range(30)]
    validation = [make_speech_row(number, "validation", BY) for number in range(30, 33)]
    write_token_rows(folder, train, validation, made_with=BY)
    return folder


def config_of(*folders: Path, **changes: Any) -> DataConfig:
    settings = {"datasets": [{"path": str(each)} for each in folders], "batch_frames": 300, "pool_batches": 2}
    return DataConfig.model_validate(settings | changes)


def said(example: Example) -> list[int]:
    words: list[int] = example.text_labels[example.text_labels > PADDING_ID].tolist()
    return words


def utterances(dataset: TokenDataset, *forms: str, split: str = "train") -> list[list[int]]:
    rows = [at for at in range(len(dataset)) if dataset.forms[at] in forms and dataset.splits[at] == split]
    return [said_of(dataset, at) for at in rows]


def said_of(dataset: TokenDataset, row: int) -> list[int]:
    return [token for token in dataset[row].a.text.tolist() if token > PADDING_ID]


def test_speech_rows_are_known_by_what_they_hold(dialogues: Path, speech: Path, tmp_path: Path) -> None:
    assert TokenDataset(str(speech)).is_speech.all()
    assert not TokenDataset(str(dialogues)).is_speech.any()
    row = make_row(1, "train", BY)
    without_oracle = row.a.__class__(row.a.text, row.a.codes, row.b.oracle, row.a.answer_mask)
    object.__setattr__(row, "a", without_oracle)
    write_token_rows(tmp_path, [row, make_speech_row(2, "train", BY)], made_with=BY)
    assert TokenDataset(str(tmp_path)).is_speech.tolist() == [False, True], "somebody asks in the first"


def test_speech_alone_is_trained_on_each_row_told_by_its_oracle(speech: Path) -> None:
    config = config_of(speech, feed={"slow_share": 0.5})
    datasets = open_datasets(config.datasets)
    plan, maker = BatchPlan(datasets, config, 0, "speech"), ExampleMaker(datasets, config, 0)
    met = [planned for pool in plan.get_pools(0) for planned in pool.planned]
    assert sorted(each.unit.row for each in met) == list(range(30))
    assert plan.n_left_out == 0
    for planned in met:
        example, changes = maker.make_example(planned, 0)
        row = datasets[0][planned.unit.row]
        words = said_of(datasets[0], planned.unit.row)
        fed = [at for at, token in enumerate(example.oracle.tolist()) if token not in (PADDING_ID, BY.text_card)]
        spoken = [at for at, token in enumerate(example.text_labels.tolist()) if token > PADDING_ID]
        assert said(example) == words == example.oracle[fed].tolist()
        assert all(told <= at for told, at in zip(fed, spoken, strict=True))
        assert example.answer_mask.sum() == len(words)
        assert row.n_frames < example.n_positions - 1 <= row.n_frames + 24
        assert changes is None


def test_without_any_oracle_speech_is_trained_on_as_it_is(speech: Path) -> None:
    config = config_of(speech, feed={"drop_share": 1.0})
    datasets = open_datasets(config.datasets)
    maker = ExampleMaker(datasets, config, 0)
    for planned in (each for pool in BatchPlan(datasets, config, 0, "speech").get_pools(0) for each in pool.planned):
        example, _ = maker.make_example(planned, 0)
        assert example.n_positions == datasets[0][planned.unit.row].n_frames + 1
        assert set(example.oracle.tolist()) == {PADDING_ID}


def test_answers_are_spoken_by_utterances_with_their_sound(dialogues: Path, speech: Path) -> None:
    feed = {"drop_share": 0.0, "shift_probability": 0.0}
    config = config_of(dialogues, speech, substitute_share=1.0, feed=feed)
    datasets = open_datasets(config.datasets)
    maker = ExampleMaker(datasets, config, 0)
    rows = [datasets[1][at].a for at in range(len(datasets[1]))]
    known, n_spoken = utterances(datasets[1], "sentence", "words", "numbers"), 0
    for unit in make_units(0, datasets[0], "train", "a").units:
        example, changes = maker.make_example(PlannedExample(unit, 0), 0)
        if changes is None or not changes.substituted:
            continue
        n_spoken += 1
        assert said(example) in known
        fed = example.oracle.tolist()
        last = len(fed) - fed[::-1].index(BY.text_card)
        assert fed[last : last + len(said(example))] == said(example)
        spoken_at = np.flatnonzero(example.text_labels > PADDING_ID)
        row = next(each for each in rows if each.text[each.text > PADDING_ID].tolist() == said(example))
        heard = example.columns[1, 1:][spoken_at]
        assert heard.tolist() == row.codes[0][row.text > PADDING_ID].tolist()
    assert n_spoken > 10


def test_an_answer_that_no_oracle_tells_is_a_stall_of_the_speech_rows(dialogues: Path, speech: Path) -> None:
    config = config_of(dialogues, speech, feed={"drop_share": 0.99})
    datasets = open_datasets(config.datasets)
    maker = ExampleMaker(datasets, config, 0)
    found = [maker.make_example(PlannedExample(unit, 0), 0) for unit in make_units(0, datasets[0], "train", "a").units]
    stalls = [said(example) for example, changes in found if changes is not None and changes.stalled]
    known = utterances(datasets[1], "stall")
    assert all(each in ([], *known) for each in stalls)
    assert [] in stalls
    assert any(stalls)


def test_utterances_are_drawn_by_length_from_the_training_split(speech: Path) -> None:
    dataset = TokenDataset(str(speech))
    pool, draw = SpeechRows([dataset]), random.Random(0)
    for n_most in (0, 12, 20, 40, 400):
        drawn = [pool.draw_answer(n_most, draw) for _ in range(30)]
        assert all(each is None or len(each.text) <= n_most for each in drawn)
        assert any(each is not None for each in drawn) == (n_most > 12)
    held_out = utterances(dataset, *set(dataset.forms), split="validation")
    found = [pool.draw_answer(400, draw) for _ in range(200)]
    assert not any(each.text[each.text > PADDING_ID].tolist() in held_out for each in found if each is not None)
    assert not SpeechRows([]).has_answers


def test_validation_tells_a_speech_row_and_beside_it_another(speech: Path) -> None:
    config = config_of(speech)
    datasets = open_datasets(config.datasets)
    maker = ExampleMaker(datasets, config, 0)
    units = make_units(0, datasets[0], "validation", "a", "speech", without_oracle=False).units
    assert len(units) == 3
    rows = utterances(datasets[0], *set(datasets[0].forms), split="validation")
    for unit, own, stranger in zip(units, rows, [*rows[1:], rows[0]], strict=True):
        judged = maker.make_validation_example(unit)
        assert said(judged.example) == own
        assert [each for each in judged.example.oracle.tolist() if each not in (PADDING_ID, BY.text_card)] == own
        wrong = [each for each in judged.wrong_oracle.tolist() if each not in (PADDING_ID, BY.text_card)]
        assert wrong == stranger[: len(wrong)]
        assert wrong


def test_a_mixture_of_both_keeps_within_its_frames(dialogues: Path, speech: Path) -> None:
    shares = {"swap_share": 0.5, "substitute_share": 0.5, "correct_share": 0.5, "wait_share": 0.5}
    late = {"drop_share": 0.2, "slow_share": 0.5, "delay": {"max_s": 3.0}}
    config = config_of(dialogues, speech, **shares, feed=late)
    datasets, steps = open_datasets(config.datasets), SharesConfig(dialogues=2, speech=1)
    kinds: tuple[RowKind, ...] = ("dialogues", "speech")
    loader = Loader({kind: RowSource(datasets, config, 0, 1, kind=kind, shares=steps) for kind in kinds}, steps)
    met = list[str]()
    for _ in range(60):
        for each in loader.load_next_step():
            assert len(each.dialogue_ids) == 1 or each.batch.oracle.numel() <= config.batch_frames
            assert {name.split("-")[0] for name in each.dialogue_ids} == {_BEGINS[each.kind]}
            met.append(each.kind)
            assert each.counts.examples == sum(name.startswith("made") for name in each.dialogue_ids)
    assert met == ["dialogues", "dialogues", "speech"] * 20
