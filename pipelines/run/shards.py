"""Parts to shards: row groups copied as they are, one shard a group of parts, named by what it was made from."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from data_schemas import ids
from data_schemas.arrow import schema_of, to_table
from data_schemas.manifest import DATA, ORACLE, REJECTS, ShardEntry
from data_schemas.records import AudioDialogue, OracleRow, Reject
from data_schemas.store import Store
from data_schemas.units import SAMPLE_RATE_HZ
from pipelines.run.execute import Part, Runner


def by_shard(parts: Sequence[Part]) -> list[list[Part]]:
    """Parts grouped by the shard they belong to, in the order of their ids."""
    ordered = sorted(parts, key=lambda part: (part.shard_id, part.part_id))
    return [list(group) for _, group in groupby(ordered, key=lambda part: part.shard_id)]


def compact(
    runner: Runner, group: Sequence[Part], oracle_version: str, flagged: frozenset[str], known: Mapping[str, ShardEntry]
) -> list[ShardEntry]:
    """The data shard and the oracle shard of one group of parts; a shard that stands already is not written again.

    Args:
        flagged: ids of dialogues to leave out.
        known: entries of the manifest that is there, by path.

    Returns:
        The entries; none for a shard without rows.
    """
    first = group[0]
    hidden = _in_group(runner, group, flagged)
    entries: list[ShardEntry] = []
    for kind, record_type in ((DATA, AudioDialogue), (ORACLE, OracleRow)):
        stage, folder = ("mixing", "data") if kind == DATA else ("oracle", f"oracles/{oracle_version}")
        name = ids.digest("shard", [_identity(runner, part, stage) for part in group], hidden)
        path = f"{folder}/{first.split}-{first.source}-{name}.parquet"
        entry = known.get(path)
        if entry is None or not _stands(runner.store, entry):
            n_rows = _write(runner.store, path, _schema(record_type), _tables(runner, group, stage, hidden))
            if n_rows == 0:
                continue
            written = runner.store.describe(path)
            entry = ShardEntry(
                path=path,
                kind=kind,
                source=first.source,
                split=first.split,
                oracle_version=oracle_version if kind == ORACLE else None,
                data_path=entries[0].path if kind == ORACLE else None,
                n_rows=n_rows,
                n_bytes=written.n_bytes,
                sha256=written.sha256,
            )
        entries.append(entry)
    return entries


def write_rejects(store: Store, source: str, rejects: Sequence[Reject]) -> list[ShardEntry]:
    """All that was refused of one source, in one file; no entry when nothing was."""
    if not rejects:
        return []
    table = to_table(list(rejects), Reject)
    written = store.write_table(f"rejects/{source}-{ids.digest('rejects', table.to_pylist())}.parquet", table)
    return [
        ShardEntry(
            path=written.path,
            kind=REJECTS,
            source=source,
            n_rows=len(rejects),
            n_bytes=written.n_bytes,
            sha256=written.sha256,
        )
    ]


def _identity(runner: Runner, part: Part, stage: str) -> list[str]:
    """What the part gives to its shard's name: its fingerprint, and its content while that is not final."""
    record = runner.finished(part, stage)
    return [part.fingerprints[stage]] if record.is_final else [part.fingerprints[stage], record.sha256]


def _stands(store: Store, entry: ShardEntry) -> bool:
    """Whether the file is there as it was written, to the last bit."""
    return store.exists(entry.path) and store.describe(entry.path).sha256 == entry.sha256


def _in_group(runner: Runner, group: Sequence[Part], flagged: frozenset[str]) -> list[str]:
    """The flagged dialogues that this group would hold."""
    if not flagged:
        return []
    there = {
        dialogue_id
        for part in group
        for dialogue_id in runner.store.read_table(part.path("mixing"), ["dialogue_id"])["dialogue_id"].to_pylist()
    }
    return sorted(there & flagged)


def _tables(runner: Runner, group: Sequence[Part], stage: str, hidden: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of each part, one part in memory at a time."""
    for part in group:
        record = runner.finished(part, stage)
        table = runner.store.read_table(part.path(stage), sha256=record.sha256)
        if hidden:
            table = table.filter(pc.invert(pc.is_in(table["dialogue_id"], pa.array(hidden, pa.string()))))
        yield table


def _write(store: Store, path: str, schema: pa.Schema, tables: Iterator[pa.Table]) -> int:
    """Writes a shard, a row group a part, and returns its rows; writes nothing when there are none."""
    filled = (table for table in tables if table.num_rows)
    first = next(filled, None)
    if first is None:
        return 0
    with store.writing(path) as sink, pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        writer.write_table(first.cast(schema))
        n_rows = int(first.num_rows)
        for table in filled:
            writer.write_table(table.cast(schema))
            n_rows += table.num_rows
    return n_rows


def _schema(record_type: type) -> pa.Schema:
    """The record's schema; with sound in it, also what makes Hugging Face `datasets` decode it."""
    schema = schema_of(record_type)
    if "audio" not in schema.names:
        return schema
    import datasets  # heavy: 1 s, needed for its metadata alone

    features = datasets.Features.from_arrow_schema(schema)
    features["audio"] = datasets.Audio(sampling_rate=SAMPLE_RATE_HZ, num_channels=2)
    return schema.with_metadata({**(schema.metadata or {}), **features.arrow_schema.metadata})
