"""Folders of checkpoints for the dashboard, as `kame checkpoint export` writes them, with weights of a few numbers."""

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from kame_model.checkpoint.card import render_card
from kame_model.checkpoint.files import CARD, FACTS, WEIGHTS, digest_files
from kame_model.checkpoint.kame_json import FreeShare, KameJson, TrainingFacts
from tests.support.evaluations import write_evaluation


def share(n: int, of: int = 40, low: float = 0.1, high: float = 0.9) -> FreeShare:
    """Makes the fact that the answer was said in `n` of `of` free runs."""
    return FreeShare(measure="said_once", oracle="right", group="all", n=n, of=of, low=low, high=high)


def write_checkpoint(folder: Path, seed: int = 0, card: str | None = None, **facts: Any) -> Path:
    """Writes a checkpoint of six weights that equal `seed`, which also decides its facts, and returns its folder.

    Args:
        card: model card in place of the usual one.
        facts: fields of kame.json that replace the usual ones.
    """
    folder.mkdir(parents=True)
    save_file({"weight": np.full((2, 3), seed, np.float32)}, folder / WEIGHTS)
    usual: dict[str, Any] = {
        "preset": "nano",
        "oracle": "tied",
        "tie_text_head": True,
        "text_card": 200,
        "card": 32,
        "n_codebooks": 4,
        "training": TrainingFacts(
            stage="dialogues",
            step=1000 + seed,
            data=["267c804991a38b79"],
            figures={"right.text": 0.5 + seed, "right.answer_right": 0.9 - seed / 10},
        ),
        "free_running": [share(30 - seed)],
    }
    told = KameJson(**usual | facts)
    (folder / FACTS).write_text(told.model_dump_json())
    (folder / CARD).write_text(render_card(told, 6, 6) if card is None else card)
    return folder


def evaluate(checkpoint: Path, folder: Path, n_right: int, of: int = 40, **run: Any) -> str:
    """Writes an evaluation of a checkpoint and returns its folder.

    In mode tandem, the first `n_right` of `of` items have the right answer; mode direct has the first half of them.
    """
    items = [{"answer_accuracy": n < n_right, "delay_s": 1.0 + n / 100} for n in range(of)]
    system = {"name": checkpoint.name, "checkpoint": digest_files([checkpoint / WEIGHTS]), "back_end": "gpt"}
    return write_evaluation(folder, {"tandem": items, "direct": items[: of // 2]}, system=system, **run)
