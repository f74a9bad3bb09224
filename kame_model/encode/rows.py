"""Token rows (a dialogue as the model's tokens, 12.5 frames a second) and the files that store them.

A shard has two files: the codes of its audio, and the rest of its rows. They are separate because a change of a prompt
or a flag makes the rows again in seconds, while the codes, which take a codec hours, are kept.

A file is Arrow IPC with a single batch, uncompressed and memory-mapped. Each column is one array of values and one of
offsets, as NumPy needs them, so reading a row copies nothing, and the file contains its own schema. The format was
chosen by measurement (1,000 rows of 12 to 56 s with 8 codebooks in random order, every byte summed, processor time):
memory-mapped Arrow 0.05 ms a row, one `.npy` file an array 0.06 ms, Parquet with groups of 16 rows 2.6 ms and of one
row 1.1 ms. An epoch of Parquet that is shuffled only inside its shards took 0.18 ms a row.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from backends.codec.protocol import Codes
from data_schemas.errors import StoreError
from data_schemas.store import Store, WrittenFile
from kame_model.frames.inner_monologue import find_words
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
"""The arrays of `OracleTokens` with their stored types; a bool is stored as a byte, which NumPy can view as bool."""

Ragged = Sequence[NDArray[np.generic]]
"""One array for each row; the lengths differ, the type is the same."""


@dataclass(frozen=True, slots=True, eq=False)
class SpeakerTokens:
    """The tokens of one speaker on T frames with n codebooks, and the oracles for what this speaker will say.

    Attributes:
        text: int32[T], the inner monologue: tokens at their words' frames, padding elsewhere.
        codes: int16[n, T], the codes of the speaker's audio.
        oracle: the events whose predicted words this speaker will say.
        answer_mask: bool[T], frames whose text token belongs to the answer: from its first word in a turn
            (`Turn.answer_word_index`) to the end of the sentence.
    """

    text: NDArray[np.int32]
    codes: Codes
    oracle: OracleTokens
    answer_mask: NDArray[np.bool_]

    def find_answering_event(self) -> int | None:
        """Returns the index of the last event before the answer's first word with a whole turn of the user heard.

        Turns before the question, such as a greeting, have such events too. None if there is no such event, or no words
        are marked as the answer.
        """
        answer = np.flatnonzero(self.answer_mask)
        heard = self.oracle.ratio >= 1
        before = np.flatnonzero(heard & (self.oracle.frame < answer[0])) if len(answer) else answer
        return int(before[-1]) if len(before) else None


@dataclass(frozen=True, slots=True, eq=False)
class TokenRow:
    """A dialogue of T frames as tokens; arrays read from a file are read-only views into it.

    `answer` is the words of the answer where they are first said completely (fewer if an interruption cut all).
    `question` is all that the user said before that turn. Both are spoken text, used to judge whether a model says the
    answer, and whether the question contained it.
    """

    dialogue_id: str
    item_id: str
    source: str
    split: str
    form: str
    question: str
    answer: str
    n_frames: int
    duration_s: float
    a: SpeakerTokens
    b: SpeakerTokens


def write_packed(store: Store, path: str, columns: Mapping[str, pa.Array]) -> WrittenFile:
    """Writes columns to one Arrow file, completely or not at all; the same columns give the same bytes.

    Raises:
        StoreError: the file cannot be written.
    """
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    with store.open_for_writing(path) as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return store.describe(path)


def to_ragged(rows: Ragged, dtype: type[np.generic]) -> pa.Array:
    """Makes an Arrow list column with one array per row; arrays are flattened in row-major order."""
    offsets = np.cumsum([0, *(each.size for each in rows)], dtype=np.int32)
    values = np.concatenate([np.empty(0, dtype), *(np.ravel(each) for each in rows)]).astype(dtype, copy=False)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


class PackedFile:
    """A file of `write_packed`, memory-mapped.

    Raises:
        StoreError: the file is missing, truncated, or has another format.
    """

    def __init__(self, path: str) -> None:
        try:
            self._batch = pa.ipc.open_file(pa.memory_map(path)).get_batch(0)
            columns = dict(zip(self._batch.schema.names, self._batch.columns, strict=True))
            self._plain = {name: each for name, each in columns.items() if not pa.types.is_list(each.type)}
            self._ragged = {
                name: (column.offsets.to_numpy(), column.values.to_numpy())
                for name, column in columns.items()
                if pa.types.is_list(column.type)
            }
        except (pa.ArrowException, OSError, ValueError) as error:
            what = f"{path} is not a complete file of token rows: {error}."
            raise StoreError(what, "Run `kame encode` again.") from error

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def read_array(self, column: str, row: int) -> NDArray[np.generic]:
        """Returns the array of one row of a ragged column, as a read-only view into the file."""
        offsets, values = self._ragged[column]
        view: NDArray[np.generic] = values[offsets[row] : offsets[row + 1]]
        return view

    def read_value(self, column: str, row: int) -> str | int | float:
        """Returns the value of one row of a plain column."""
        found: str | int | float = self._plain[column][row].as_py()
        return found

    def read_column(self, column: str) -> list[str | int | float]:
        """Returns the values of all rows of a plain column."""
        found: list[str | int | float] = self._batch.column(column).to_pylist()
        return found

    def count_values(self, column: str) -> NDArray[np.int32]:
        """Returns int32[rows], the number of values of each row of a ragged column."""
        lengths: NDArray[np.int32] = np.diff(self._ragged[column][0])
        return lengths


def write_codes(
    store: Store, path: str, dialogue_ids: Sequence[str], codes: Sequence[tuple[Codes, Codes]]
) -> WrittenFile:
    """Writes the codes of a shard: those of A and B for each dialogue.

    Raises:
        StoreError: the file cannot be written.
    """
    columns = {
        "dialogue_id": pa.array(dialogue_ids, pa.string()),
        "n_frames": pa.array((a.shape[1] for a, _ in codes), pa.int32()),
        "a": to_ragged([a for a, _ in codes], np.int16),
        "b": to_ragged([b for _, b in codes], np.int16),
    }
    return write_packed(store, path, columns)


class CodesFile(PackedFile):
    """The codes of all dialogues of a shard, including flagged ones."""

    def read_codes(self, row: int) -> tuple[Codes, Codes]:
        """Returns the codes of A and B, [n_codebooks, n_frames] each."""
        n_frames = int(self.read_value("n_frames", row))
        a, b = (self.read_array(speaker, row).reshape(-1, n_frames) for speaker in SPEAKERS)
        return a.view(np.int16), b.view(np.int16)


def write_rows(store: Store, path: str, rows: Sequence[TokenRow], codes_rows: Sequence[int]) -> WrittenFile:
    """Writes the rows of a shard without their codes; `codes_rows` has the index of each row in the codes file.

    Raises:
        StoreError: the file cannot be written.
    """
    columns = {name: pa.array((getattr(row, name) for row in rows), pa.string()) for name in _TEXTS}
    columns["codes_row"] = pa.array(codes_rows, pa.int32())
    columns["n_frames"] = pa.array((row.n_frames for row in rows), pa.int32())
    columns["duration_s"] = pa.array((row.duration_s for row in rows), pa.float64())
    for speaker in SPEAKERS:
        tokens: list[SpeakerTokens] = [getattr(row, speaker) for row in rows]
        columns[f"{speaker}_text"] = to_ragged([each.text for each in tokens], np.int32)
        columns[f"{speaker}_answer_mask"] = to_ragged([each.answer_mask for each in tokens], np.uint8)
        for name, dtype in _ORACLE.items():
            columns[f"{speaker}_oracle_{name}"] = to_ragged([getattr(each.oracle, name) for each in tokens], dtype)
    return write_packed(store, path, columns)


class RowsFile(PackedFile):
    """The rows of a shard, joined with their codes."""

    def __init__(self, path: str, codes: CodesFile) -> None:
        super().__init__(path)
        self._codes = codes

    def read_row(self, row: int) -> TokenRow:
        """Returns one row; its arrays are views into the two files."""
        a_codes, b_codes = self._codes.read_codes(int(self.read_value("codes_row", row)))
        texts = {name: str(self.read_value(name, row)) for name in _TEXTS}
        return TokenRow(
            **texts,
            n_frames=int(self.read_value("n_frames", row)),
            duration_s=float(self.read_value("duration_s", row)),
            a=self._read_speaker("a", row, a_codes),
            b=self._read_speaker("b", row, b_codes),
        )

    def find_speech(self) -> NDArray[np.bool_]:
        """Returns bool[rows], true for rows without an oracle in which A speaks and B does not."""
        is_speech: NDArray[np.bool_] = (self.count_values("a_oracle_frame") == 0) & (
            self.count_values("b_oracle_frame") == 0
        )
        for row in np.flatnonzero(is_speech).tolist():
            a_talks, b_talks = (
                find_words(self.read_array(f"{each}_text", row).view(np.int32)).any() for each in SPEAKERS
            )
            is_speech[row] = a_talks and not b_talks
        return is_speech

    def read_rows(self) -> Iterator[TokenRow]:
        """Yields all rows in order."""
        return (self.read_row(row) for row in range(len(self)))

    def _read_speaker(self, speaker: str, row: int, codes: Codes) -> SpeakerTokens:
        """Returns the tokens of one speaker of a row, as views into the file, with the given codes."""
        oracle = {name: self.read_array(f"{speaker}_oracle_{name}", row) for name in _ORACLE}
        oracle["skip_forbid"] = oracle["skip_forbid"].view(np.bool_)
        return SpeakerTokens(
            text=self.read_array(f"{speaker}_text", row).view(np.int32),
            codes=codes,
            oracle=OracleTokens(**oracle),  # type: ignore[arg-type]
            answer_mask=self.read_array(f"{speaker}_answer_mask", row).view(np.bool_),
        )
