"""Arrays of all lengths packed into one file, memory-mapped: reading a row copies nothing.

A file is Arrow IPC with a single batch, uncompressed, so each column lies in it as one array of values and one of
offsets, just as NumPy wants them, and it still tells any reader its own schema. Chosen by measuring
(`benchmarks.encode --storage --rows 1000`: rows of 12 to 56 s with 8 codebooks in random order, every byte summed up,
processor time): Arrow mapped 0.05 ms a row, one `.npy` file an array 0.06 ms, Parquet by groups of 16 rows 2.6 ms and
of one row 1.1 ms. An epoch of Parquet that is shuffled only inside its shards took 0.18 ms a row.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from data_schemas.errors import StoreError
from data_schemas.store import Store, Written

Ragged = Sequence[NDArray[np.generic]]
"""One array a row, of any lengths and one type."""


def write_packed(store: Store, path: str, columns: Mapping[str, pa.Array]) -> Written:
    """Writes one file, whole or not at all; the same columns give the same bytes.

    Raises:
        StoreError: it cannot be written.
    """
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    with store.writing(path) as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return store.describe(path)


def ragged(rows: Ragged, dtype: type[np.generic]) -> pa.Array:
    """A column of arrays; more than one dimension is laid flat, row by row."""
    offsets = np.cumsum([0, *(each.size for each in rows)], dtype=np.int32)
    values = np.concatenate([np.empty(0, dtype), *(np.ravel(each) for each in rows)]).astype(dtype, copy=False)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def scalars(values: Iterable[str | int | float], data_type: pa.DataType) -> pa.Array:
    """A column of one value a row."""
    return pa.array(list(values), data_type)


class PackedFile:
    """A file of `write_packed`, mapped into memory.

    Raises:
        StoreError: it is missing, cut, or not one of ours.
    """

    def __init__(self, path: str) -> None:
        try:
            self._batch = pa.ipc.open_file(pa.memory_map(path)).get_batch(0)
            self._ragged = {
                name: (column.offsets.to_numpy(), column.values.to_numpy())
                for name, column in zip(self._batch.schema.names, self._batch.columns, strict=True)
                if pa.types.is_list(column.type)
            }
        except (pa.ArrowException, OSError, ValueError) as error:
            raise StoreError(f"{path} is no whole file of token rows: {error}.", "Run `kame encode` again.") from error

    def __len__(self) -> int:
        return int(self._batch.num_rows)

    def array(self, column: str, row: int) -> NDArray[np.generic]:
        """One row's array of a ragged column: a read-only view into the file."""
        offsets, values = self._ragged[column]
        view: NDArray[np.generic] = values[offsets[row] : offsets[row + 1]]
        return view

    def value(self, column: str, row: int) -> str | int | float:
        """One row's value of a plain column."""
        found: str | int | float = self._batch.column(column)[row].as_py()
        return found

    def column(self, column: str) -> list[str | int | float]:
        """All rows' values of a plain column."""
        found: list[str | int | float] = self._batch.column(column).to_pylist()
        return found

    def counts(self, column: str) -> NDArray[np.int32]:
        """int32[rows], how many values each row of a ragged column has."""
        lengths: NDArray[np.int32] = np.diff(self._ragged[column][0])
        return lengths
