"""Sentences for the assistant's voice, on doubles: a small source, and settings with which nothing takes long."""

import json
from pathlib import Path
from typing import Any

from data_schemas.config import SourceConfig
from data_schemas.config.speech_rows import SpeechRowsConfig
from tests.support.vocabularies import make_vocabulary

N_ITEMS = 40


def write_source(folder: Path) -> SourceConfig:
    """Writes a source of items in the form of GSM8K, of three sentences each."""
    rows = [
        {
            "question": f"Ann has {n} green apples. How many apples has she after she eats one of them?",
            "answer": f"She has {n} - 1 = {n - 1} apples left.\n#### {n - 1}",
        }
        for n in range(3, N_ITEMS + 3)
    ]
    file = folder / "apples.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return SourceConfig(name="gsm8k", path=str(file))


def speech_config(folder: Path, **changes: Any) -> SpeechRowsConfig:
    """Configures 36 s of tone bursts in one process; source and vocabulary are written to a folder."""
    settings: dict[str, Any] = {
        "out": str(folder / "speech"),
        "sources": [write_source(folder).model_dump()],
        "hours": 0.01,
        "speech": {"tts": "double"},
        "alignment": {"aligner": "double"},
        "codec": "double",
        "tokenizer": str(make_vocabulary(folder).path),
        "workers": 1,
    }
    return SpeechRowsConfig.model_validate(settings | changes)
