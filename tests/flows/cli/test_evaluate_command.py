"""`kame evaluate`: where a checkpoint is run, and who asks and listens."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from data_schemas.errors import BackendError
from flows.cli.app import app
from flows.runs import evaluate
from kame_model.checkpoint import load


@pytest.mark.parametrize(("there", "device"), [(True, "cuda"), (False, "cpu")])
def test_a_checkpoint_is_run_on_the_gpu_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, there: bool, device: str
) -> None:
    asked: list[str] = []

    def ask(source: str, device: torch.device) -> None:
        asked.append(str(device))
        raise BackendError("Not here.", "")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(load, "load_checkpoint", ask)
    told = CliRunner().invoke(app, ["evaluate", "recall", "checkpoint", "tokens"])
    assert (told.exit_code, asked) == (BackendError.exit_code, [device])


@pytest.mark.parametrize(
    ("typed", "settings"),
    [
        (["questions", "--asr", "ear", "--tts", "voice"], {"recogniser": "ear", "tts": "voice"}),
        (["mt-bench", "--path", "x", "--asr", "ear", "--tts", "voice"], {"recogniser": "ear", "tts": "voice"}),
        (["duplex", "--path", "x", "--asr", "ear"], {"recogniser": "ear"}),  # what it plays is sound
    ],
)
def test_every_command_that_calls_a_server_takes_who_asks_and_who_listens(
    monkeypatch: pytest.MonkeyPatch, typed: list[str], settings: dict[str, str]
) -> None:
    found: list[Mapping[str, Any]] = []

    def keep(kind: str, serving: object, asked: Mapping[str, Any], *_: object, **__: object) -> list[dict[str, Any]]:
        found.append(asked)
        return []

    monkeypatch.setattr(evaluate, "evaluate_served", keep)
    told = CliRunner().invoke(app, ["evaluate", *typed])
    assert told.exit_code == 0, told.output
    assert settings.items() <= found[0].items()
