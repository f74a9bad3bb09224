"""DuckDB index of a dataset's metadata, for filters, counts, sorting and the SQL page.

It is built once for each content of a dataset, from columns of its Parquet files without audio, and kept in the cache
folder. It is written under a temporary name and renamed, so that no page sees an incomplete one.
"""

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dashboard.catalog import Dataset
from data_schemas import ids
from data_schemas.errors import KameError, StoreError
from data_schemas.manifest import DATA, ORACLE, REJECTS, ShardEntry

INDEX_VERSION = 3
"""Increased with every change of the tables below."""
PAGE_WAIT_S: Final = 0.4
"""Time in seconds that a page waits for an index before it says that one is being built."""
_LEFT_S: Final = 3600.0
"""Age in seconds after which an incomplete index is deleted."""
CONNECTION_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {"memory_limit": "1GB", "threads": 2}
_MEMBERSHIP = ".store/membership"

_TABLES = """
CREATE TABLE dialogues (
    dialogue_id VARCHAR, item_id VARCHAR, source VARCHAR, split VARCHAR, form VARCHAR, language VARCHAR,
    category VARCHAR, licence VARCHAR, variant BIGINT, question VARCHAR, answer VARCHAR, spoken_text VARCHAR,
    duration_s DOUBLE, n_turns BIGINT, n_words BIGINT, n_events BIGINT, levels BIGINT[], answer_delay_s DOUBLE,
    voices VARCHAR[], voice_a VARCHAR, voice_b VARCHAR,
    tts VARCHAR, asr VARCHAR, aligner VARCHAR, script_method VARCHAR,
    wer DOUBLE, n_heard_words BIGINT, n_word_errors BIGINT, number_recall DOUBLE, name_recall DOUBLE,
    mean_word_score DOUBLE, peak_dbfs DOUBLE, rms_dbfs_a DOUBLE, rms_dbfs_b DOUBLE,
    noise_dbfs DOUBLE, room_rt60_s DOUBLE, is_telephone BOOLEAN, file VARCHAR, file_row BIGINT, oracle_digest UBIGINT);
CREATE TABLE events (
    dialogue_id VARCHAR, source VARCHAR, oracle_version VARCHAR, event_id VARCHAR, t_s DOUBLE, speaker VARCHAR,
    turn_index BIGINT, n_words_heard BIGINT, n_words BIGINT, r DOUBLE, level BIGINT, status VARCHAR, text VARCHAR,
    raw_text VARCHAR, request_id VARCHAR, attempt BIGINT, model VARCHAR, answered_by VARCHAR,
    system_fingerprint VARCHAR, simulator VARCHAR, prompt_version VARCHAR, taken_from VARCHAR, error VARCHAR,
    truth_share DOUBLE);
CREATE TABLE oracles (
    dialogue_id VARCHAR, oracle_version VARCHAR, simulator VARCHAR, model VARCHAR, model_digest VARCHAR,
    endpoint VARCHAR, prompt_version VARCHAR, prompt_digest VARCHAR, interval_s DOUBLE, level_bounds DOUBLE[],
    max_tokens BIGINT, temperature DOUBLE, max_asks BIGINT, seed BIGINT,
    max_requests_per_turn BIGINT, min_words BIGINT, max_words BIGINT, both_directions BOOLEAN);
CREATE TABLE rejects (
    item_id VARCHAR, dialogue_id VARCHAR, source VARCHAR, stage VARCHAR, reason VARCHAR, detail VARCHAR,
    question VARCHAR, answer VARCHAR, part_id VARCHAR);
CREATE TEMP TABLE items (item_id VARCHAR, question VARCHAR, answer VARCHAR, part_id VARCHAR);
CREATE TEMP MACRO words(phrase) AS list_distinct(regexp_extract_all(lower(phrase), '[\\p{L}\\p{N}'']+'));
"""
"""`truth_share`: share of the true answer's distinct words in an oracle's text. `oracle_digest` identifies a
dialogue's events in the manifest's version in every index, so that two datasets can be compared.
"""

_DIALOGUES = """
INSERT INTO dialogues SELECT
    dialogue_id, item_id, source, split, form, language, category, licence, variant, question, answer,
    array_to_string([t.spoken_text for t in turns], ' '),
    duration_s, len(turns), list_sum([len(u.words) for u in utterances]), 0, [],
    list_first([t.keyword_delay_s for t in turns if t.keyword_delay_s is not null]),
    list_distinct([provenance.voice_a, provenance.voice_b]), provenance.voice_a, provenance.voice_b,
    provenance.tts, provenance.asr, provenance.aligner, provenance.script_method, quality.wer,
    list_sum([u.hearing.n_words for u in utterances]), list_sum([u.hearing.n_word_errors for u in utterances]),
    quality.number_recall, quality.name_recall, quality.mean_word_score,
    quality.peak_dbfs, quality.rms_dbfs_a, quality.rms_dbfs_b,
    surroundings.noise_dbfs, surroundings.room_rt60_s, surroundings.is_telephone, $path, file_row_number, NULL
FROM (SELECT *, flatten([t.utterances for t in turns]) AS utterances
      FROM read_parquet($file, file_row_number = true))
"""
_EVENTS = """
INSERT INTO events WITH unnested AS (
    SELECT dialogue_id, source, oracle_version, model, simulator, prompt_version, unnest(events) AS e
    FROM read_parquet($file)),
truths AS (
    SELECT dialogue_id, e.speaker AS speaker, e.turn_index AS turn_index, words(any_value(e.text)) AS truth
    FROM unnested WHERE e.status = 'truth' GROUP BY ALL)
SELECT unnested.dialogue_id, source, oracle_version, e.event_id, e.t_s, e.speaker, e.turn_index, e.n_words_heard,
    e.n_words, e.r, e.level, e.status, e.text, e.raw_text, e.request_id, e.attempt, model, {answered_by},
    {system_fingerprint}, simulator, prompt_version, e.taken_from, e.error,
    CASE WHEN len(truth) > 0 AND e.text IS NOT NULL
         THEN len(list_intersect(words(e.text), truth)) / len(truth) END
FROM unnested LEFT JOIN truths ON truths.dialogue_id = unnested.dialogue_id
    AND truths.speaker = unnested.e.speaker AND truths.turn_index = unnested.e.turn_index
"""
_ORACLES = """
INSERT INTO oracles SELECT dialogue_id, oracle_version, simulator, model, model_digest, endpoint, prompt_version,
    prompt_digest, interval_s, level_bounds, max_tokens, temperature, max_asks, seed,
    max_requests_per_turn, min_words, max_words, both_directions FROM read_parquet($file)
"""
_REJECTS = """
INSERT INTO rejects SELECT r.item_id, r.dialogue_id, r.source, r.stage, r.reason, r.detail,
    i.question, i.answer, i.part_id
FROM read_parquet($file) r LEFT JOIN items i USING (item_id)
"""
_ITEMS = """
INSERT INTO items SELECT item.item_id, any_value(item.question), any_value(item.answer), any_value(part_id)
FROM read_parquet($file) GROUP BY item.item_id
"""
_COUNT_EVENTS = """
UPDATE dialogues SET n_events = counted.n, levels = counted.levels, oracle_digest = counted.digest FROM (
    SELECT dialogue_id, count(*) AS n, list_sort(list(DISTINCT level)) AS levels,
        bit_xor(md5_number_lower(concat_ws('|', speaker, turn_index, t_s, level, status, text))) AS digest
    FROM events WHERE oracle_version = ? GROUP BY dialogue_id) counted
WHERE counted.dialogue_id = dialogues.dialogue_id
"""


class IndexBeingMade(Exception):
    """The index is not ready yet: this many files of all are in it."""

    def __init__(self, n_done: int, n_files: int) -> None:
        super().__init__(f"{n_done} of {n_files} files are indexed")
        self.n_done, self.n_files = n_done, n_files


class Index:
    """Index of one content of a dataset, opened for reading by any number of threads."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._connection = duckdb.connect(str(file), read_only=True, config=CONNECTION_CONFIG)

    def close(self) -> None:
        """Closes the index."""
        self._connection.close()

    def open_cursor(self) -> duckdb.DuckDBPyConnection:
        """Returns a connection for the queries of one page, which must be closed; it has its own temporary tables."""
        return self._connection.cursor()

    def fetch_rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Executes a query and returns its rows."""
        with closing(self.open_cursor()) as cursor:
            return cursor.execute(sql, list(parameters)).fetchall()

    def fetch_records(self, sql: str, parameters: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Executes a query and returns its rows as dictionaries."""
        with closing(self.open_cursor()) as cursor:
            return fetch_records(cursor, sql, parameters)


def fetch_records(
    cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()
) -> list[dict[str, Any]]:
    """Executes a query and returns its rows as dictionaries; parameters by position or name."""
    given = dict(parameters) if isinstance(parameters, Mapping) else list(parameters)
    names = [each[0] for each in cursor.execute(sql, given).description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


class Indexes:
    """Builds indexes, one at a time in a background thread, and keeps those of current datasets open.

    Args:
        cache: folder of the indexes.
    """

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._makers = ThreadPoolExecutor(1, thread_name_prefix="index")
        self._lock = threading.Lock()
        self._is_closed = False
        self._wanted: dict[Path, tuple[Future[Index], list[int]]] = {}

    def open(self, dataset: Dataset, wait_s: float = PAGE_WAIT_S) -> Index:
        """Opens the index of a dataset's current content, which is built in the background if it does not exist.

        Indexes of the dataset's earlier contents are deleted once the new one is built. The caller must not close the
        index, which is shared.

        Args:
            wait_s: timeout in seconds.

        Raises:
            IndexBeingMade: it takes longer.
            KameError: it cannot be built; the next call tries again.
        """
        folder = self._cache / ids.digest(str(dataset.folder))
        file = folder / f"{dataset.manifest.fingerprint}-{INDEX_VERSION}.duckdb"
        with self._lock:
            if file not in self._wanted:
                for old in [each for each in self._wanted if each.parent == folder]:
                    del self._wanted[old]  # pages that use it now keep it open
                n_done = [0]
                self._wanted[file] = (self._makers.submit(self._open_or_build, dataset, file, n_done), n_done)
            future, n_done = self._wanted[file]
        try:
            return future.result(wait_s)
        except NotYet:
            raise IndexBeingMade(n_done[0], len(dataset.manifest.shards)) from None
        except KameError:
            with self._lock:  # the next page tries again
                self._wanted.pop(file, None)
            raise

    def close(self) -> None:
        """Waits until the file that is being read is indexed, stops building, and closes all indexes."""
        self._is_closed = True
        self._makers.shutdown(cancel_futures=True)
        with self._lock:
            for future, _ in self._wanted.values():
                if future.done() and not future.cancelled() and future.exception() is None:
                    future.result().close()
            self._wanted.clear()

    def _count_file(self, n_done: list[int]) -> None:
        """Adds one to `n_done[0]`, the number of files indexed so far.

        Raises:
            StoreError: the dashboard is shutting down, which ends the building.
        """
        n_done[0] += 1
        if self._is_closed:
            raise StoreError("The dashboard is shutting down.")

    def _open_or_build(self, dataset: Dataset, file: Path, n_done: list[int]) -> Index:
        """Opens an index file, which is built first if it does not exist; then older ones are deleted.

        Raises:
            StoreError: it cannot be built.
        """
        try:
            if not file.is_file():
                file.parent.mkdir(parents=True, exist_ok=True)
                aside = file.with_name(f"{uuid.uuid4().hex}.making")
                try:
                    build_index(dataset, aside, lambda: self._count_file(n_done))
                    aside.replace(file)
                finally:
                    aside.unlink(missing_ok=True)
                _remove_others(file)
            return Index(file)
        except (duckdb.Error, pa.ArrowException, FileNotFoundError) as error:
            first = str(error).splitlines()[0]
            raise StoreError(
                f"The index of {dataset.folder} cannot be built: {first}.",
                f"Run `kame check {dataset.folder}` to find the damaged files.",
            ) from error
        except OSError as error:
            raise StoreError(
                f"The index of {dataset.folder} cannot be built: {error}.",
                "Check the permissions and the free space of the cache folder.",
            ) from error


def _remove_others(file: Path) -> None:
    """Deletes other indexes in the folder, and any other file there that is older than an hour; errors are ignored."""
    for other in file.parent.iterdir():
        with suppress(OSError):
            is_left = time.time() - other.stat().st_mtime > _LEFT_S
            if other != file and (other.suffix == ".duckdb" or is_left):
                other.unlink()


def build_index(dataset: Dataset, file: Path, on_file: Callable[[], object]) -> None:
    """Writes the index of a dataset to a new file.

    Args:
        on_file: called after each file of the manifest.

    Raises:
        duckdb.Error, pyarrow.ArrowException, OSError, KameError: a file is missing or damaged.
    """
    with closing(duckdb.connect(str(file), config=CONNECTION_CONFIG)) as connection:
        connection.execute(_TABLES)
        for members in sorted((dataset.folder / _MEMBERSHIP).glob("*.parquet")):
            connection.execute(_ITEMS, {"file": str(members)})
        for entry in dataset.manifest.shards:
            _add_file(connection, entry, dataset.get_file(entry.path))
            on_file()
        connection.execute(_COUNT_EVENTS, [dataset.manifest.oracle_version])


def _add_file(connection: duckdb.DuckDBPyConnection, entry: ShardEntry, file: Path) -> None:
    """Inserts the rows of a file into the tables of its kind; files of other kinds are ignored."""
    if entry.kind == DATA:
        connection.execute(_DIALOGUES, {"file": str(file), "path": entry.path})
    elif entry.kind == ORACLE:
        event = pq.read_schema(file).field("events").type.value_type
        newer = ("answered_by", "system_fingerprint")  # files of before have no such fields
        columns = {name: f"e.{name}" if event.get_field_index(name) >= 0 else "NULL" for name in newer}
        connection.execute(_EVENTS.format(**columns), {"file": str(file)})
        connection.execute(_ORACLES, {"file": str(file)})
    elif entry.kind == REJECTS:
        connection.execute(_REJECTS, {"file": str(file)})
