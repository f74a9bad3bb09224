"""Exports token rows in the format of kame_finetune: Parquet files of plain lists, one row for each dialogue.

    OUT/<split>-<source>-<fingerprint>.parquet   a file for each file of token rows
    OUT/export.json                              what it was made from

| column                    | type                 |                                                                  |
|---------------------------|----------------------|------------------------------------------------------------------|
| `dialogue_id`             | string               |                                                                  |
| `A`, `B`                  | list of int32 lists  | [1 + n, T]: text on frames, then the n codebooks                 |
| `X_oracle_event_frame_pos`| int32 list [E]       | int(seconds * 12.5)                                              |
| `X_oracle_event_ratio`    | float32 list [E]     | words heard of the words of the turn                             |
| `X_oracle_event_skip_forbid` | int8 list [E]     | 1: last event of its run, a turn's events                        |
| `X_oracle_pred_values`, `X_oracle_pred_offsets` | int32 lists [..], [E + 1] | what was predicted                    |
| `X_oracle_hint_values`, `X_oracle_hint_offsets` | int32 lists [..], [E + 1] | the true answer; empty while r <= 0.5 |

X is A (left channel, the voice that the model learns) or B (the user); events are stored under the speaker who will
say the predicted words. KAME has n = 8 codebooks of Mimi; any other number gives that many rows.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from data_schemas.code_layout import CodeLayout
from data_schemas.errors import ConfigError
from data_schemas.store import create_folder
from kame_model.encode.rows import SpeakerTokens, TokenRow
from kame_model.encode.token_dataset import TokenDataset

_EXPORT = "export.json"
_INT32S = pa.list_(pa.int32())
_ORACLE_COLUMNS = (
    ("oracle_event_frame_pos", "frame", _INT32S),
    ("oracle_event_ratio", "ratio", pa.list_(pa.float32())),
    ("oracle_event_skip_forbid", "skip_forbid", pa.list_(pa.int8())),
    ("oracle_pred_values", "pred_values", _INT32S),
    ("oracle_pred_offsets", "pred_offsets", _INT32S),
    ("oracle_hint_values", "hint_values", _INT32S),
    ("oracle_hint_offsets", "hint_offsets", _INT32S),
)
"""Column name without the speaker, field of `OracleTokens`, and type."""

SCHEMA = pa.schema(
    [("dialogue_id", pa.string())]
    + [(speaker, pa.list_(_INT32S)) for speaker in "AB"]
    + [(f"{speaker}_{column}", kind) for speaker in "AB" for column, _, kind in _ORACLE_COLUMNS]
)


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """Summary of an export: number of dialogues by split, and total number of frames of 80 ms."""

    dialogues: dict[str, int]
    n_frames: int


def export_kame_finetune(folder: str, out: str, on_dialogues: Callable[[int], None] = lambda n: None) -> ExportSummary:
    """Writes token rows in the format of kame_finetune; `out` is written completely or not at all.

    Args:
        folder: a folder of token rows written by `kame encode`.
        out: a folder that does not exist yet.
        on_dialogues: progress callback; gets the number of dialogues written since the last call.

    Raises:
        ConfigError: `out` already exists, or the codes do not have Mimi's layout.
        DatasetError: `folder` holds no token rows.
        StoreError: a file cannot be read, or `out` cannot be written.
    """
    with create_folder(out) as aside:
        dataset = TokenDataset(folder)
        _check_codes(dataset)
        return _write_files(dataset, aside, on_dialogues)


def to_table(rows: Iterable[TokenRow]) -> pa.Table:
    """Converts rows to a table with the columns of kame_finetune."""
    return pa.Table.from_pylist([_make_record(row) for row in rows], schema=SCHEMA)


def _check_codes(dataset: TokenDataset) -> None:
    """Raises a ConfigError if the codes do not have Mimi's layout, the only one that kame_finetune supports."""
    layout = dataset.layout
    if layout != CodeLayout.make_mimi(layout.n_codebooks, layout.card):
        raise ConfigError(
            f"{dataset.folder} holds codes of {dataset.manifest.made_with.codec}. kame_finetune requires Mimi's: it "
            "delays all codebooks but the first by a frame, and gives the first a hundredfold loss weight.",
            "Encode the dataset with --codec mimi.",
        )


def _write_files(dataset: TokenDataset, folder: Path, on_dialogues: Callable[[int], None]) -> ExportSummary:
    """Writes a Parquet file for each file of token rows, and `export.json`."""
    for name, rows in dataset.read_shards():
        pq.write_table(to_table(rows.read_rows()), folder / f"{name}.parquet", compression="zstd")
        on_dialogues(len(rows))
    exported = ExportSummary(dict(Counter(dataset.splits)), int(dataset.lengths.sum()))
    made_from = {
        "format": "kame_finetune",
        "fingerprint": dataset.fingerprint,
        "made_with": dataset.manifest.made_with.model_dump(),
        "dialogues": exported.dialogues,
    }
    (folder / _EXPORT).write_text(json.dumps(made_from, indent=1) + "\n", encoding="utf-8")
    return exported


def _make_record(row: TokenRow) -> dict[str, Any]:
    """Returns the row of a dialogue in the columns of `SCHEMA`."""
    record: dict[str, Any] = {"dialogue_id": row.dialogue_id, "A": _stack_streams(row.a), "B": _stack_streams(row.b)}
    for speaker, tokens in (("A", row.a), ("B", row.b)):
        for column, field, _ in _ORACLE_COLUMNS:
            values = getattr(tokens.oracle, field)
            record[f"{speaker}_{column}"] = values.astype(np.int8) if values.dtype == np.bool_ else values
    return record


def _stack_streams(tokens: SpeakerTokens) -> list[Any]:
    """Returns the streams of a speaker as a list of 1 + n arrays, int32[T]: the text, then each codebook."""
    return [tokens.text, *tokens.codes.astype(np.int32)]
