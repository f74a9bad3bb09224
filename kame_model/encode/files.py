"""Token rows in their two files: the sound as codes, and all the rest.

They are apart because they change apart: another prompt or another flag makes the rows anew in seconds, while the
codes, which take a codec hours, stay.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from backends.codec.protocol import Codes
from data_schemas.store import Store, Written
from kame_model.encode.packed import PackedFile, ragged, scalars, write_packed
from kame_model.encode.rows import SpeakerTokens, TokenRow
from kame_model.frames.oracle_stream import OracleTokens

SPEAKERS = ("a", "b")
_TEXTS = ("dialogue_id", "item_id", "source", "split", "form", "question", "answer")
_ORACLE: dict[str, type[np.generic]] = {
    "frame": np.int32,
    "ratio": np.float32,
    "level": np.int8,
    "skip_forbid": np.uint8,
    "pred_values": np.int32,
    "pred_offsets": np.int32,
    "hint_values": np.int32,
    "hint_offsets": np.int32,
}
"""The arrays of `OracleTokens` as they are stored: a bool as a byte, which can be viewed as one."""


def write_codes(store: Store, path: str, dialogue_ids: Sequence[str], codes: Sequence[tuple[Codes, Codes]]) -> Written:
    """Writes a shard's codes, of A and B for each dialogue."""
    columns = {
        "dialogue_id": scalars(dialogue_ids, pa.string()),
        "n_frames": scalars((a.shape[1] for a, _ in codes), pa.int32()),
        "a": ragged([a for a, _ in codes], np.int16),
        "b": ragged([b for _, b in codes], np.int16),
    }
    return write_packed(store, path, columns)


class CodesFile(PackedFile):
    """The codes of a shard's dialogues, all of them, flagged or not."""

    def codes(self, row: int) -> tuple[Codes, Codes]:
        """The codes of A and B, [n_codebooks, n_frames] each."""
        n_frames = int(self.value("n_frames", row))
        a, b = (self.array(speaker, row).reshape(-1, n_frames) for speaker in SPEAKERS)
        return a.view(np.int16), b.view(np.int16)


def write_rows(store: Store, path: str, rows: Sequence[TokenRow], codes_rows: Sequence[int]) -> Written:
    """Writes all of a shard's rows but their codes, for which it has their place in the codes file."""
    columns = {name: scalars((getattr(row, name) for row in rows), pa.string()) for name in _TEXTS}
    columns["codes_row"] = scalars(codes_rows, pa.int32())
    columns["n_frames"] = scalars((row.n_frames for row in rows), pa.int32())
    columns["duration_s"] = scalars((row.duration_s for row in rows), pa.float64())
    for speaker in SPEAKERS:
        tokens: list[SpeakerTokens] = [getattr(row, speaker) for row in rows]
        columns[f"{speaker}_text"] = ragged([each.text for each in tokens], np.int32)
        columns[f"{speaker}_answer_mask"] = ragged([each.answer_mask for each in tokens], np.uint8)
        for name, dtype in _ORACLE.items():
            columns[f"{speaker}_oracle_{name}"] = ragged([getattr(each.oracle, name) for each in tokens], dtype)
    return write_packed(store, path, columns)


class RowsFile(PackedFile):
    """The rows of a shard, joined with their codes."""

    def __init__(self, path: str, codes: CodesFile) -> None:
        super().__init__(path)
        self._codes = codes

    def row(self, row: int) -> TokenRow:
        """One row; its arrays are views into the two files."""
        a_codes, b_codes = self._codes.codes(int(self.value("codes_row", row)))
        texts = {name: str(self.value(name, row)) for name in _TEXTS}
        return TokenRow(
            **texts,
            n_frames=int(self.value("n_frames", row)),
            duration_s=float(self.value("duration_s", row)),
            a=self._speaker("a", row, a_codes),
            b=self._speaker("b", row, b_codes),
        )

    def rows(self) -> Iterator[TokenRow]:
        """All rows in order."""
        return (self.row(row) for row in range(len(self)))

    def _speaker(self, speaker: str, row: int, codes: Codes) -> SpeakerTokens:
        oracle = {name: self.array(f"{speaker}_oracle_{name}", row) for name in _ORACLE}
        oracle["skip_forbid"] = oracle["skip_forbid"].view(np.bool_)
        return SpeakerTokens(
            text=self.array(f"{speaker}_text", row).view(np.int32),
            codes=codes,
            oracle=OracleTokens(**oracle),  # type: ignore[arg-type]
            answer_mask=self.array(f"{speaker}_answer_mask", row).view(np.bool_),
        )
