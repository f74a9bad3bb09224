"""Storage formats of token rows that were compared, for `benchmarks.encode --storage`."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from data_schemas.store import Store
from kame_model.encode.rows import PackedFile, to_ragged, write_packed

N_SHARD = 250
Row = dict[str, NDArray[np.generic]]
_Views = Mapping[str, tuple[NDArray[np.generic], NDArray[np.generic]]]
COLUMNS: dict[str, type[np.generic]] = {
    "a_codes": np.int16,
    "b_codes": np.int16,
    "a_text": np.int32,
    "b_text": np.int32,
    "answer_mask": np.uint8,
    "frame": np.int32,
    "ratio": np.float32,
    "pred_values": np.int32,
    "pred_offsets": np.int32,
    "hint_values": np.int32,
    "hint_offsets": np.int32,
}


def made_row(draw: np.random.Generator) -> Row:
    """Makes a row of random numbers of the usual sizes."""
    n_frames, n_events = int(draw.integers(150, 700)), int(draw.integers(10, 40))
    sizes = {"a_codes": 8 * n_frames, "b_codes": 8 * n_frames, "a_text": n_frames, "b_text": n_frames}
    sizes |= {"answer_mask": n_frames, "frame": n_events, "ratio": n_events}
    sizes |= {"pred_values": 20 * n_events, "pred_offsets": n_events + 1}
    sizes |= {"hint_values": 10 * n_events, "hint_offsets": n_events + 1}
    return {name: draw.integers(0, 100, size).astype(COLUMNS[name]) for name, size in sizes.items()}


def write_all(folder: Path, n_rows: int) -> dict[str, int]:
    """Writes the same rows in every format, and returns the bytes of each."""
    draw, store = np.random.default_rng(0), Store(str(folder))
    sizes = {"arrow": 0, "npy": 0, "parquet": 0}
    for shard in range(-(-n_rows // N_SHARD)):
        rows = [made_row(draw) for _ in range(min(N_SHARD, n_rows - shard * N_SHARD))]
        columns = {name: to_ragged([row[name] for row in rows], dtype) for name, dtype in COLUMNS.items()}
        sizes["arrow"] += write_packed(store, f"{shard}.arrow", columns).n_bytes
        table = pa.table(columns)
        for n_group in (1, 16):
            pq.write_table(table, folder / f"{shard}.{n_group}.parquet", compression="zstd", row_group_size=n_group)
        sizes["parquet"] += (folder / f"{shard}.16.parquet").stat().st_size
        (folder / str(shard)).mkdir()
        for name, column in columns.items():
            np.save(folder / str(shard) / f"{name}.npy", column.values.to_numpy())
            np.save(folder / str(shard) / f"{name}.offsets.npy", column.offsets.to_numpy())
        sizes["npy"] += sum(each.stat().st_size for each in (folder / str(shard)).iterdir())
    return sizes


def _sum(row: Row) -> float:
    """Sums all bytes, so that each is read."""
    return float(sum(each.sum() for each in row.values()))


def _arrow(folder: Path, order: Sequence[int]) -> int:
    files = [PackedFile(str(path)) for path in _shards(folder, "{}.arrow")]
    for at in order:
        _sum({name: files[at // N_SHARD].read_array(name, at % N_SHARD) for name in COLUMNS})
    return len(order)


def _npy(folder: Path, order: Sequence[int]) -> int:
    def mapped(path: Path) -> NDArray[np.generic]:
        return np.asarray(np.load(path, mmap_mode="r"))

    files = [
        {name: (mapped(path / f"{name}.offsets.npy"), mapped(path / f"{name}.npy")) for name in COLUMNS}
        for path in _shards(folder, "{}")
    ]
    for at in order:
        _sum(_cut(files[at // N_SHARD], at % N_SHARD))
    return len(order)


def _parquet(n_group: int) -> Callable[[Path, Sequence[int]], int]:
    def read(folder: Path, order: Sequence[int]) -> int:
        files = [pq.ParquetFile(path, memory_map=True) for path in _shards(folder, f"{{}}.{n_group}.parquet")]
        for at in order:
            in_shard = at % N_SHARD
            group = files[at // N_SHARD].read_row_group(in_shard // n_group)
            _sum(_cut(_views(group), in_shard % n_group))
        return len(order)

    return read


def _parquet_by_shard(folder: Path, order: Sequence[int]) -> int:
    """Reads all rows, with each shard read whole and shuffled in itself, which is the best that Parquet can do."""
    shards = list(_shards(folder, "{}.16.parquet"))
    random.Random(0).shuffle(shards)
    n_read = 0
    for path in shards:
        table = pq.read_table(path)
        views = _views(table)
        for at in random.Random(0).sample(range(table.num_rows), table.num_rows):
            _sum(_cut(views, at))
            n_read += 1
    return n_read


def _views(table: pa.Table) -> _Views:
    columns = {name: table[name].combine_chunks() for name in COLUMNS}
    return {name: (column.offsets.to_numpy(), column.values.to_numpy()) for name, column in columns.items()}


def _cut(views: _Views, at: int) -> Row:
    return {name: values[offsets[at] : offsets[at + 1]] for name, (offsets, values) in views.items()}


def _shards(folder: Path, name: str) -> Iterator[Path]:
    n_shards = len(list(folder.glob("*.arrow")))
    return (folder / name.format(shard) for shard in range(n_shards))


FORMATS: dict[str, Callable[[Path, Sequence[int]], int]] = {
    "arrow, mapped": _arrow,
    "npy, mapped": _npy,
    "parquet, groups of 16": _parquet(16),
    "parquet, groups of 1": _parquet(1),
    "parquet, shuffled by shard only": _parquet_by_shard,
}
"""Functions that read rows in a given order and return their number, by format."""
