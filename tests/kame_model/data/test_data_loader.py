from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from data_schemas.code_layout import CodeLayout
from data_schemas.config.training import DataConfig
from data_schemas.errors import ConfigError, StoreError
from kame_model.data.batch_plan import BatchPlan, PlannedExample, make_units
from kame_model.data.copying import WordPieces
from kame_model.data.example import ExampleMaker
from kame_model.data.loader import ALONE, ONLY_DIALOGUES, AugmentationCounts, Loader, MicroBatch, RowSource, Share
from kame_model.data.mixture import open_datasets
from kame_model.data.splicing import TokenClip, splice_clip
from kame_model.encode.rows import TokenRow
from kame_model.encode.token_dataset import TokenDataset
from kame_model.frames.batch import Batch, round_length
from kame_model.frames.ids import PADDING_ID
from kame_model.train.throughput import count_frames
from tests.support.made_rows import made_with, make_row
from tests.support.token_rows import write_token_rows
from tests.support.train_runs import tiny_dataset

PIECES = WordPieces(range(10, 120), range(120, 200), 200, CodeLayout.make_mimi(4, 32))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_dataset(tmp_path_factory.mktemp("rows"), n_train=20)


@pytest.fixture(scope="module")
def opened(rows: Path) -> TokenDataset:
    return TokenDataset(str(rows))


def config_of(*folders: Path, **changes: Any) -> DataConfig:
    settings = {"datasets": [{"path": str(each)} for each in folders], "batch_frames": 300, "pool_batches": 2}
    return DataConfig.model_validate(settings | {"swap_share": 0.5, "correct_share": 0.3} | changes)


def loader_of(
    config: DataConfig, accumulation: int = 2, share: Share = ALONE, seed: int = 0, pieces: WordPieces | None = None
) -> Loader:
    rows = RowSource(open_datasets(config.datasets), config, seed, accumulation, share, pieces)
    return Loader({"dialogues": rows}, ONLY_DIALOGUES)


def met(plan: BatchPlan, number: int = 0) -> list[PlannedExample]:
    """The examples of a round."""
    return [each for pool in plan.get_pools(number) for each in pool.planned]


def same(one: MicroBatch, other: MicroBatch) -> bool:
    alike = all(
        torch.equal(getattr(one.batch, each.name), getattr(other.batch, each.name)) for each in fields(one.batch)
    )
    return alike and one.number == other.number and one.dialogue_ids == other.dialogue_ids


def longest_of(batch: Batch) -> int:
    """The input positions of the longest example, without padding."""
    return int((batch.columns[:, 0, 1:] >= 0).sum(1).max())


@pytest.mark.parametrize("n_steps", [1, 4, 9])
def test_a_loader_gone_on_with_gives_the_very_same_samples(rows: Path, n_steps: int) -> None:
    whole, killed, resumed = (loader_of(config_of(rows)) for _ in range(3))
    for _ in range(n_steps):
        whole.load_next_step()
        killed.load_next_step()
    resumed.load_state_dict(killed.state_dict())
    for _ in range(6):  # over the end of a round
        assert all(
            same(one, other) for one, other in zip(whole.load_next_step(), resumed.load_next_step(), strict=True)
        )


@pytest.mark.parametrize("world", [2, 4])
def test_processes_share_what_one_alone_would_see(rows: Path, world: int) -> None:
    alone = loader_of(config_of(rows), accumulation=4)
    shares = [loader_of(config_of(rows), 4, Share(rank, world)) for rank in range(world)]
    for _ in range(3):
        together = sorted((each for loader in shares for each in loader.load_next_step()), key=lambda each: each.number)
        assert all(same(one, other) for one, other in zip(alone.load_next_step(), together, strict=True))


@pytest.mark.full
def test_worker_processes_change_nothing(rows: Path) -> None:
    here, elsewhere = loader_of(config_of(rows)), loader_of(config_of(rows, workers=1))
    for _ in range(3):
        assert all(
            same(one, other) for one, other in zip(here.load_next_step(), elsewhere.load_next_step(), strict=True)
        )


def test_other_data_or_settings_of_it_are_not_gone_on_with(rows: Path) -> None:
    state = loader_of(config_of(rows)).state_dict()
    for changed in ({"swap_share": 0.4}, {"length_multiple": 8}):
        with pytest.raises(ConfigError, match="started with other data"):
            loader_of(config_of(rows, **changed)).load_state_dict(state)
    loader_of(config_of(rows, workers=1)).load_state_dict(state)  # who makes the batches does not matter


def test_both_speakers_may_be_learnt(rows: Path) -> None:
    config = config_of(rows, learn="both", feed={"drop_share": 1.0})  # without any oracle: B has none here
    (dataset,) = open_datasets(config.datasets)
    plan = BatchPlan([dataset], config, 0)
    assert len(Counter((unit.row, unit.speaker) for (unit, *_) in met(plan))) == 2 * dataset.splits.count("train")
    maker = ExampleMaker([dataset], config, seed=0)
    of_a, of_b = (
        maker.make_validation_example(unit).example for unit in make_units(0, dataset, "validation", "both").units[:2]
    )
    n = dataset.layout.n_codebooks
    assert (of_a.columns[1 : 1 + n] == of_b.columns[1 + n :]).all()  # A's own voice is B's other


HINTS = {"hints_only_until_step": 1000, "predictions_from_step": 2000, "left_share": 0.0, "delay": {"max_s": 3.0}}
MADE: list[dict[str, Any]] = [
    {},
    {"swap_share": 1.0, "wait_share": 0.5},
    {"correct_share": 1.0, "wait_share": 0.5},
    {"wait_share": 1.0},
    {"feed": HINTS},
]


@settings(max_examples=25)
@given(
    batch_frames=st.integers(60, 600),
    pool_batches=st.integers(1, 5),
    seed=st.integers(0, 99),
    made=st.sampled_from(MADE),
)
def test_micro_batches_keep_within_their_frames_padding_included(
    rows: Path, opened: TokenDataset, batch_frames: int, pool_batches: int, seed: int, made: dict[str, Any]
) -> None:
    config, dataset = config_of(rows, batch_frames=batch_frames, pool_batches=pool_batches, **made), opened
    maker = ExampleMaker([dataset], config, seed)
    for batch in (each for pool in BatchPlan([dataset], config, seed).get_pools(0) for each in pool.cut(maker.measure)):
        lengths = [maker.make_example(planned, 0)[0].n_positions for planned in batch]
        if "feed" not in made:  # lengths are those of the curriculum's end; before it an answer may wait otherwise
            assert lengths == [maker.measure(planned) for planned in batch]
        assert len(batch) == 1 or len(batch) * round_length(max(lengths)) <= batch_frames


@pytest.mark.parametrize("befalls", [{}, {"wait_share": 0.5, "feed": {"slow_share": 0.3, "delay": {"max_s": 3.0}}}])
def test_nearly_all_frames_of_a_batch_are_real(tmp_path: Path, befalls: dict[str, Any]) -> None:
    """As dialogues come to be, joined, lengthened and waiting; of which two are seldom equally long."""
    rows = tiny_dataset(tmp_path, n_train=300)
    config = config_of(rows, batch_frames=1_500, pool_batches=50, swap_share=0.5, **befalls)
    loader = loader_of(config, accumulation=1)
    n_real, n_frames = 0, 0
    for _ in range(30):
        for each in loader.load_next_step():
            n_real += count_frames(each.batch)
            n_frames += len(each.batch.oracle) * longest_of(each.batch)  # without padding to a multiple of 32
    assert n_real / n_frames > 0.95


NOTHING: dict[str, Any] = {
    "swap_share": 0.0,
    "correct_share": 0.0,
    "feed": {"drop_share": 0.0, "shift_probability": 0.0},
}


@pytest.mark.parametrize(
    ("changes", "made"),
    [
        ({}, set()),
        ({"swap_share": 1.0}, {"swapped"}),
        ({"substitute_share": 1.0}, {"substituted"}),
        ({"correct_share": 1.0}, {"corrected"}),
        ({"wait_share": 1.0}, set()),
        ({"feed": {"drop_share": 0.9, "shift_probability": 0.0}, "correct_share": 1.0}, {"stalled", "corrected"}),
        ({"feed": {"drop_share": 0.0, "left_share": 0.0, "delay": {"max_s": 3.0}}}, {"delayed"}),
        ({"feed": {"drop_share": 1.0}, "swap_share": 1.0, "correct_share": 1.0}, set()),
    ],
)
def test_what_was_made_of_dialogues_is_counted(rows: Path, changes: dict[str, Any], made: set[str]) -> None:
    config = config_of(rows, **NOTHING | changes)
    loader = loader_of(config, pieces=PIECES)
    counts = [batch.counts for _ in range(10) for batch in loader.load_next_step()]
    n_examples, *changed = (sum(each) for each in zip(*counts, strict=True))
    assert n_examples > 20
    assert {name for name, n in zip(AugmentationCounts._fields[1:], changed, strict=True) if n} == made
    assert all(n <= n_examples for n in changed)


def make_framed_row(number: int) -> TokenRow:
    """A dialogue with one word before its answer, which no other dialogue has, and another after it."""
    row = make_row(number, "train", made_with())
    said = np.full(12, PADDING_ID, np.int32)
    said[2] = 100 + number  # no word of a made row
    clip, quiet = (
        TokenClip(said, np.zeros((4, 12), np.int16)),
        TokenClip(np.full(12, PADDING_ID, np.int32), row.b.codes[:, :12]),
    )
    a, b = row.a, row.b
    for at in (row.n_frames, int(np.flatnonzero(a.text > PADDING_ID)[0]) - 2):
        a, b = splice_clip(a, at, at, clip), splice_clip(b, at, at, quiet)
    return replace(row, a=a, b=b, n_frames=row.n_frames + 24, duration_s=row.duration_s + 1.92)


def test_leads_and_tails_meet_questions_and_answers_of_others(tmp_path: Path) -> None:
    rows = [make_framed_row(number) for number in range(20)]
    write_token_rows(tmp_path, rows, made_with=made_with())
    loader = loader_of(config_of(tmp_path, **NOTHING | {"reframe_share": 0.5}))
    kept: list[tuple[bool, bool]] = []
    n_reframed = 0
    for each in [batch for _ in range(20) for batch in loader.load_next_step()]:
        n_reframed += each.counts.reframed
        for dialogue_id, labels in zip(each.dialogue_ids, each.batch.text_labels, strict=True):
            said, own = labels[labels > PADDING_ID], 100 + int(dialogue_id.split("-")[1])
            assert {int(said[0]), int(said[-1])} <= set(range(100, 120))
            kept.append((int(said[0]) == own, int(said[-1]) == own))
    assert 0.3 < n_reframed / len(kept) < 0.7
    assert {(True, True), (False, False)} <= set(kept)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_share_of_dialogues_has_up_to_ten_seconds_of_silence_behind_it(rows: Path, share: float) -> None:
    config = config_of(rows, **NOTHING | {"wait_share": share})
    datasets = open_datasets(config.datasets)
    plan, maker = BatchPlan(datasets, config, seed=0), ExampleMaker(datasets, config, seed=0)
    planned = [each for number in range(8) for each in met(plan, number)]
    behind = [maker.make_example(each, 0)[0].n_positions - 1 - datasets[0][each.unit.row].n_frames for each in planned]
    assert behind == [each.n_behind for each in planned]
    assert max(behind) <= 125
    assert sum(n > 0 for n in behind) / len(behind) == pytest.approx(share, abs=0.12)
    assert (max(behind) > 100) == (share > 0)


def test_without_its_oracle_no_example_has_its_answer(rows: Path) -> None:
    """What is said instead is a lead, or nothing; of ten examples one is without oracle by default."""
    config = config_of(rows, **NOTHING | {"feed": {"drop_share": 0.5, "shift_probability": 0.0}})
    datasets = open_datasets(config.datasets)
    maker = ExampleMaker(datasets, config, seed=0)
    stalled = 0
    plan = BatchPlan(datasets, config, 0)
    for planned in (each for number in range(3) for each in met(plan, number)):
        example, changes = maker.make_example(planned, 0)
        assert changes is not None
        row = datasets[0][planned.unit.row]
        answer = row.a.text[row.a.text > PADDING_ID].tolist()
        said = example.text_labels[example.text_labels > PADDING_ID].tolist()
        has_oracle = bool((example.oracle != PADDING_ID).any())
        assert changes.stalled != has_oracle
        assert (said == answer) == has_oracle
        stalled += changes.stalled
    assert 15 < stalled < 45


@pytest.mark.parametrize(("learn", "n_met", "n_left_out"), [("a", 3, 1), ("b", 2, 2), ("both", 5, 3)])
def test_a_speaker_is_learnt_where_that_one_has_an_oracle(
    tmp_path: Path, learn: str, n_met: int, n_left_out: int
) -> None:
    """Rows with an oracle for A, for A, for both, and for B alone."""
    made = [make_row(number, "train", made_with()) for number in range(4)]
    nothing = made[0].b.oracle
    for number in (2, 3):
        made[number] = replace(made[number], b=replace(made[number].b, oracle=made[number].a.oracle))
    made[3] = replace(made[3], a=replace(made[3].a, oracle=nothing))
    dataset = write_token_rows(tmp_path, made, made_with=made_with())
    found = make_units(0, dataset, "train", learn, without_oracle=False)
    with_oracle = {"a": {0, 1, 2}, "b": {2, 3}}
    assert {(unit.row, unit.speaker) for unit in found.units} == {
        (row, speaker) for speaker in ("ab" if learn == "both" else learn) for row in with_oracle[speaker]
    }
    assert (len(found.units), found.n_left_out) == (n_met, n_left_out)
    assert loader_of(config_of(tmp_path, learn=learn)).observe(None)["rows_left_out"] == n_left_out
    assert not make_units(0, dataset, "train", learn, without_oracle=True).n_left_out


def test_nothing_is_learnt_of_a_speaker_for_whom_there_are_no_oracles(rows: Path) -> None:
    with pytest.raises(ConfigError, match=r"no dialogue with an oracle .*learn: b"):
        loader_of(config_of(rows, learn="b"))


@pytest.mark.parametrize("joins", [False, True])
def test_a_long_dialogue_is_cut_where_the_settings_say(rows: Path, opened: TokenDataset, joins: bool) -> None:
    shares = {"swap_share": 0.5 * joins, "correct_share": 0.0}
    whole, cut = (BatchPlan([opened], config_of(rows, max_columns=n, **shares), 0) for n in (512, 64))
    for plan, longest in ((whole, 511), (cut, 63)):
        units = plan._units[0]
        assert units.n_positions.max() <= longest
    assert len(cut._units[0].units) > len(whole._units[0].units)


def test_a_wrong_oracle_is_never_that_of_the_same_item(tmp_path: Path) -> None:
    made = [make_row(number, "validation", made_with()) for number in range(3)]
    variant = replace(make_row(9, "validation", made_with()), item_id=made[0].item_id, answer=made[0].answer)
    dataset = write_token_rows(tmp_path / "rows", [made[0], variant, made[1], made[2]], made_with=made_with())
    alone = write_token_rows(tmp_path / "alone", [made[0]], made_with=made_with())

    def wrong_oracles(of: TokenDataset) -> list[list[int]]:
        maker = ExampleMaker([of], config_of(Path(of.folder)), seed=0)
        units = make_units(0, of, "validation", "a").units
        return [maker.make_validation_example(unit).wrong_oracle.tolist() for unit in units]

    answers = [dataset[at].a.oracle.get_hint(len(dataset[at].a.oracle) - 1).tolist() for at in range(4)]
    for fed, stranger in zip(wrong_oracles(dataset), (2, 2, 3, 0), strict=True):
        assert any(fed[at : at + 3] == answers[stranger][:3] for at in range(len(fed))), "its end may be cut off"
    assert [set(each) for each in wrong_oracles(alone)] == [{PADDING_ID}], "there is no other item"


def test_datasets_are_mixed_by_weight_each_through_its_own_epochs(rows: Path, tmp_path: Path) -> None:
    other = tiny_dataset(tmp_path / "other", n_train=5)
    config = DataConfig.model_validate(
        {"datasets": [{"path": str(rows), "weight": 1.0}, {"path": str(other), "weight": 3.0}]}
    )
    datasets = open_datasets(config.datasets)
    plan = BatchPlan(datasets, config, seed=0)
    planned = [each for number in range(4) for each in met(plan, number)]
    by_dataset = Counter(unit.dataset for (unit, *_) in planned)
    assert by_dataset[1] == 3 * by_dataset[0] == 75
    assert {datasets[unit.dataset].splits[unit.row] for (unit, *_) in planned} == {"train"}
    assert set(Counter(planned).values()) == {1}  # the same row only in another epoch
    epochs = Counter(epoch for (unit, epoch, _) in planned if unit.dataset == 1)
    assert max(epochs) == by_dataset[1] // 5 - (by_dataset[1] % 5 == 0)
    orders = {tuple(unit.row for (unit, of, _) in planned if (unit.dataset, of) == (1, each)) for each in epochs}
    assert len(orders) > 1


def test_each_epoch_draws_an_example_anew(rows: Path) -> None:
    config = config_of(rows)
    datasets = open_datasets(config.datasets)
    planned = met(BatchPlan(datasets, config, 0))[0]
    maker = ExampleMaker(datasets, config, seed=0)
    one, other = (maker.make_example(planned._replace(epoch=epoch), step=0)[0] for epoch in (0, 1))
    assert one.oracle.tolist() != other.oracle.tolist() or one.columns.shape != other.columns.shape


def test_validation_has_the_whole_oracle_and_beside_it_anothers(rows: Path) -> None:
    config = config_of(rows)
    (dataset,) = open_datasets(config.datasets)
    maker = ExampleMaker([dataset], config, seed=0)
    for unit in make_units(0, dataset, "validation", "a").units:
        judged, row = maker.make_validation_example(unit), dataset[unit.row]
        assert judged.example.oracle.tolist().count(dataset.text_card) == len(row.a.oracle)
        assert len(judged.wrong_oracle) == judged.example.n_positions
        assert judged.wrong_oracle.tolist() != judged.example.oracle.tolist()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tokenizer_digest": "another"}, "differ in their vocabulary: made and another"),
        ({"card": 64}, r"order of the codes: sizes=\(32, .* and sizes=\(64, "),
    ],
)
def test_datasets_of_two_vocabularies_or_codecs_do_not_go_together(
    rows: Path, tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        open_datasets(config_of(rows, tiny_dataset(tmp_path / "other", **changes)).datasets)


def test_a_changed_byte_of_a_token_file_is_told(tmp_path: Path) -> None:
    folder = tiny_dataset(tmp_path / "rows")
    file = next(folder.rglob("*.arrow"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreError, match=f"{file.name} has changed since it was written"):
        open_datasets(config_of(folder).datasets)
