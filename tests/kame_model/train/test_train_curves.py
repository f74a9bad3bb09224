"""Curves of a run at Weights & Biases, offline; TensorBoard's are in test_train_logs.py."""

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from data_schemas.errors import ConfigError
from kame_model.train import curves
from kame_model.train.curves import check_curves, flatten_numbers, open_curves
from kame_model.train.logs import METRICS, read_metrics
from kame_model.train.run import train
from tests.support.train_runs import tiny_dataset, tiny_run

pytestmark = pytest.mark.full


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)


def read_records(data: bytes) -> Iterator[bytes]:
    """Records of a `.wandb` file: LevelDB's log format behind seven bytes, which count into its first block."""
    at, held = 7, b""
    while at + 7 <= len(data):
        if 32_768 - at % 32_768 < 7:  # no header fits into what is left of the block
            at += 32_768 - at % 32_768
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        held += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield held
            held = b""


def read_offline(folder: Path) -> Iterator[dict[str, Any]]:
    """What `wandb sync` would send of a run's folder: each record of its history."""
    from wandb.proto import wandb_internal_pb2

    for file in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        for data in read_records(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.WhichOneof("record_type") == "history":
                items = record.history.item
                yield {each.key or "/".join(each.nested_key): json.loads(each.value_json) for each in items}


def test_a_run_without_the_package_says_what_to_install_before_anything_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curves, "find_spec", lambda name: None)
    run = tiny_run(tmp_path / "run", tiny_dataset(tmp_path / "rows"), keep={"wandb_project": "trials"})
    with pytest.raises(ConfigError, match="package wandb, which is not installed") as error:
        train(run)
    assert "kame-pipeline[wandb]" in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_run_without_a_key_says_which_variable_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "find_spec", lambda name: SimpleNamespace(origin="wandb/__init__.py"))
    run = tiny_run(tmp_path / "run", tmp_path, keep={"wandb_project": "trials"})
    with pytest.raises(ConfigError, match="environment variable WANDB_API_KEY, which is not set"):
        check_curves(run)
    monkeypatch.setenv("WANDB_MODE", "offline")
    check_curves(run)
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    check_curves(run)


def test_what_the_service_refuses_is_told_and_nothing_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        class Error(Exception):
            """As the package's."""

        @staticmethod
        def Settings(**_: object) -> None:  # noqa: N802 - the package's name
            """As the package's."""

        @classmethod
        def init(cls, **_: object) -> None:
            raise cls.Error("permission denied")

    closed = []
    monkeypatch.setitem(sys.modules, "wandb", Refusing)
    monkeypatch.setattr(curves.TensorBoard, "close", lambda board: closed.append(board))
    run = tiny_run(tmp_path, tmp_path, keep={"wandb_project": "trials", "tensorboard": True})
    with pytest.raises(ConfigError, match="did not accept the run: permission denied"):
        open_curves(run, tmp_path, 0)
    assert len(closed) == 1


def test_numbers_alone_are_drawn_each_by_its_whole_name() -> None:
    figures = {"right": {"loss": 2.5, "text": 1}, "dialogues": ["a"], "hours": 0.1, "note": "text"}
    assert flatten_numbers(figures, "look") == {"look/right/loss": 2.5, "look/right/text": 1.0, "look/hours": 0.1}


@pytest.mark.slow
def test_a_run_offline_has_the_lines_of_its_metrics_and_is_one_run_when_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb", reason="the extra wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    rows, folder = tiny_dataset(tmp_path / "rows"), tmp_path / "run"
    for n_steps in (2, 4):
        train(tiny_run(folder, rows, max_steps=n_steps, keep={"wandb_project": "trials"}))
    wandb.teardown()  # `finish` may return before the last records are in the file
    sent = list(read_offline(folder))
    for line in read_metrics(folder / METRICS):
        numbers = flatten_numbers({name: each for name, each in line.items() if name not in ("kind", "step")}, "")
        expected = {f"{line['kind']}{name}": each for name, each in numbers.items()}
        assert [each for each in sent if each["step"] == line["step"] and each.items() >= expected.items()], line
    (run_id,) = {each.name.split("-")[-1] for each in folder.glob("wandb/offline-run-*")}
    assert run_id == (folder / curves.WANDB_ID).read_text()
    assert len(list(folder.glob("wandb/offline-run-*"))) == 2
