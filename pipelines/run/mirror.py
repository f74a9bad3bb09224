"""Runs on a dataset in a bucket: the work is done in a local folder, and finished files are uploaded.

Before a run starts, the local folder is synchronised with the bucket, so that any machine can resume a run that was
killed elsewhere. Each part is uploaded when it is finished, with its record last. At the end come shards, rejects and
prompts, then the manifest, on condition that nobody else has published since this run began, then the card. Superseded
files that this run has read or uploaded are removed last, as long as the manifest is its own. A file whose name
determines its content is uploaded unconditionally; any other file only if its version in the bucket is the one that
this run read.

The chat models' answers, their log, locks and temporary files are never uploaded.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, Protocol

from backends.assets import get_cache_dir
from data_schemas.buckets import Bucket, ConcurrentChange, is_in_bucket
from data_schemas.config import RefreshConfig
from data_schemas.errors import DatasetError, KameError, StoreError
from data_schemas.flags import FLAGS
from data_schemas.manifest import MANIFEST
from data_schemas.reader import read_manifest, read_manifest_if_any
from data_schemas.store import TEMPORARY, Store
from pipelines.run.lease import Lease, hold_lease
from pipelines.run.parts import FOLDER as PARTS
from pipelines.run.parts import Part, PartRecord
from pipelines.run.publish import CARD

SPOOL: Final = "KAME_SPOOL"
"""Environment variable: the local folder for datasets in buckets. Workers of a cluster must be able to reach it."""
INDEX: Final = ".store/mirror.jsonl"
COPIES_AT_ONCE: Final = 8
_STAYS: Final = re.compile(
    rf"\.store/(lock|answers\.sqlite.*|mirror\.jsonl|lease\.json)|runs/.*\.chat\.jsonl|.*{TEMPORARY}"
)
"""Files that belong to this machine only."""
_SHOWN: Final = ("data/", "oracles/", "rejects/", "prompts/")
"""Files that the manifest lists; their names determine their content."""
_NAMED_BY_CONTENT: Final = (*_SHOWN, f"{PARTS}/", "runs/")


class StageProgress(Protocol):
    """Receives the progress of a run."""

    def begin_stage(self, name: str, n_items: int) -> None:
        """Called when a stage begins, with the number of its items."""

    def on_part(self, stage: str, part: Part, record: PartRecord) -> None:
        """Called when the output of a stage for a part exists, made now or found."""


def get_work_folder(out: str) -> str:
    """Returns the local folder in which a dataset is built: `out` itself or, for a bucket, one of its own.

    The latter is in the folder that `KAME_SPOOL` names, else in the cache; it is not created.
    """
    if not is_in_bucket(out):
        return out
    server = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    name = hashlib.sha256(f"{server} {out.rstrip('/')}".encode()).hexdigest()[:16]
    above = Path(os.environ.get(SPOOL) or get_cache_dir() / "spool").expanduser()
    return str(above / f"{re.sub(r'[^A-Za-z0-9]+', '-', out).strip('-')}-{name}")


def find_local_copy(address: str) -> str:
    """Returns the local folder of a dataset in a bucket, if it holds what is published there.

    The sizes of shards are compared, and the contents of manifest, card, flags, prompts and reports.

    Raises:
        DatasetError: there is no dataset in the bucket, or the folder lacks its files or has others.
        StoreError: the bucket fails.
    """
    bucket, here = Bucket(address), Store(get_work_folder(address))
    shards = {entry.path: entry.n_bytes for entry in read_manifest(bucket).shards}
    beside = {path for store in (bucket, here) for folder in ("prompts", "report") for path in store.list_files(folder)}
    different = [
        *(path for path, n_bytes in shards.items() if not here.exists(path) or here.get_size(path) != n_bytes),
        *(path for path in {MANIFEST, CARD, FLAGS, *beside} if _read_if_any(bucket, path) != _read_if_any(here, path)),
    ]
    if different:
        raise DatasetError(
            f"{here.root} is not a copy of what is published in {address}: {min(different)} is missing or different in "
            "one of them.",
            f"Run `kame refresh --out {address}` with the dataset's settings on this machine, and publish again. Or "
            "download the bucket's files to another folder, except .store/, and publish that folder.",
        )
    return here.root


def _read_if_any(store: Store, path: str) -> bytes | None:
    """Returns the content of a file; None if it does not exist."""
    return store.read_bytes(path) if store.exists(path) else None


@contextmanager
def mirror_run(config: RefreshConfig, progress: StageProgress) -> Iterator[tuple[RefreshConfig, StageProgress]]:
    """Yields the configuration and progress for a run on a dataset that may be in a bucket.

    For a dataset in a local folder they are those given. Otherwise the run works in a local folder, into which the
    bucket's files are downloaded first, and holds the bucket's lease. If the block ends without an error, the dataset
    is published in the bucket; if not, the finished files are uploaded, so that another run can resume, and the block's
    error is raised, not one of this upload.

    Raises:
        StoreError: another run writes to the dataset, the bucket fails, or somebody else has published in the meantime.
        ConfigError: the address names no bucket, or its library is not installed.
    """
    if not is_in_bucket(config.out):
        yield config, progress
        return
    bucket, folder = Bucket(config.out), get_work_folder(config.out)
    with hold_lease(bucket) as lease, Mirror(bucket, folder, lease) as mirror:
        mirror.pull()
        try:
            yield config.model_copy(update={"out": folder}), _Copying(progress, mirror)
        except BaseException:
            with suppress(KameError):  # the error of the run itself is the one to raise
                mirror.push()
            raise
        mirror.publish()


class _Copying:
    """Progress that uploads each part when it is finished."""

    def __init__(self, progress: StageProgress, mirror: "Mirror") -> None:
        self._progress, self._mirror = progress, mirror

    def begin_stage(self, name: str, n_items: int) -> None:
        """Uploads what is new, and then reports that a stage begins."""
        self._mirror.push()  # the plan, and what is left of the stage before
        self._progress.begin_stage(name, n_items)

    def on_part(self, stage: str, part: Part, record: PartRecord) -> None:
        """Starts the upload of a part's output, and reports the part; raises the error of an earlier upload."""
        self._mirror.push_part(part, stage)
        self._progress.on_part(stage, part, record)


Stamp = tuple[int, int]
"""Size in bytes and modification time in nanoseconds of a local file: they show whether it changed since it was copied.
"""


class Mirror:
    """Synchronises a local folder with a dataset in a bucket, with an index of the files that are the same in both.

    Args:
        bucket: the dataset.
        folder: the local folder; it is created if it does not exist.
        lease: checked before each upload.
    """

    def __init__(self, bucket: Bucket, folder: str, lease: Lease) -> None:
        self._bucket, self._folder, self._lease = bucket, Path(folder), lease
        self._store = Store(folder)
        self._same: dict[str, tuple[str, Stamp]] = {}
        self._shown_now: set[str] = set()
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(COPIES_AT_ONCE, "mirror")
        self._copying: list[Future[None]] = []

    def __enter__(self) -> "Mirror":
        self._read_index()
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for copies in progress and cancels those that have not started; their errors are not raised."""
        self._pool.shutdown(cancel_futures=True)

    def pull(self) -> None:
        """Downloads the files of the bucket that differ here, and removes local copies of what is gone from it.

        A local change of a file that the bucket has is overwritten. A file that the bucket does not have is kept if it
        was never copied, or has changed since.
        """
        there = {path: state for path, state in self._bucket.list_states().items() if not _STAYS.fullmatch(path)}
        for path in self._same.keys() - there.keys():
            if self._is_unchanged(path):
                self._store.remove(path)
            self._record_copy(path, None)
        stale = [path for path, state in there.items() if not self._is_unchanged(path, state)]
        self._copy_all(partial(self._download, path, there[path]) for path in stale)

    def push_part(self, part: Part, stage: str) -> None:
        """Starts the upload of a part's output and then its record; raises the error of an earlier upload."""
        done = [each for each in self._copying if each.done()]
        self._copying = [each for each in self._copying if not each.done()]
        for each in done:
            each.result()
        new = [path for path in (part.get_path(stage), part.get_record_path(stage)) if not self._is_unchanged(path)]
        if new:
            self._copying.append(self._pool.submit(self._upload, *new))

    def push(self) -> None:
        """Waits for the uploads in progress, then uploads all other new files except those of the published dataset."""
        copying, self._copying = self._copying, []
        for each in copying:
            each.result()
        new = [path for path in self._list_new() if not path.startswith(_SHOWN) and path not in (MANIFEST, CARD)]
        first = dict.fromkeys(path for path in new if path.endswith(".parquet") and path.startswith(_NAMED_BY_CONTENT))
        for wave in ([*first], [path for path in new if path not in first]):  # records after the files they describe
            self._copy_all(partial(self._upload, path) for path in wave)

    def publish(self) -> None:
        """Uploads everything, the manifest only if nobody has published since the run began; removes superseded files.

        Raises:
            StoreError: somebody else has published since then; their dataset is complete and is left as it is, and the
                files of this run are removed from the bucket while it holds the lease. Or the lease is lost, or the
                bucket fails; the message says whether this was after the manifest had been published.
        """
        self.push()
        try:
            self._check_manifest(self._get_known_state(MANIFEST))
            shown = [path for path in self._list_new() if path.startswith(_SHOWN)]
            self._shown_now.update(shown)
            self._copy_all(partial(self._upload, path) for path in shown)
            self._upload(*(path for path in (MANIFEST,) if not self._is_unchanged(path)))
        except ConcurrentChange as error:
            with suppress(KameError):  # the error of the run itself is the one to raise; the next run removes the rest
                self._remove_uploaded_shards()
            raise StoreError(
                f"Another run has published {self._bucket.address} since this one began; its dataset is kept.",
                "Run the same command again: it reads what was published and makes only what is missing.",
            ) from error
        try:
            self._upload(*(path for path in (CARD,) if not self._is_unchanged(path)))
            gone = [path for path in self._same if not self._store.exists(path)]
            self._remove(gone, self._get_known_state(MANIFEST))
        except StoreError as error:
            raise StoreError(
                f"The dataset was published in {self._bucket.address}, but perhaps not its card, and superseded files "
                f"may be left: {error.what}",
                "Run the same command again when no other run writes there.",
            ) from error

    def _get_known_state(self, path: str) -> str | None:
        """Returns the state that a file had in the bucket when this machine last copied it.

        None if it never did, or if the file has been removed from the bucket since.
        """
        known = self._same.get(path)
        return known[0] if known else None

    def _check_manifest(self, state: str | None) -> None:
        """Raises `ConcurrentChange` if the manifest in the bucket is no longer in this state (None: missing)."""
        if self._bucket.get_state(MANIFEST) != state:
            raise ConcurrentChange(f"Another run has written {self._bucket.address}/{MANIFEST} since this one read it.")

    def _remove_uploaded_shards(self) -> None:
        """Removes the Parquet files that this run has uploaded and that the manifest in the bucket does not list."""
        state = self._bucket.get_state(MANIFEST)
        published = read_manifest_if_any(self._bucket)
        listed = {entry.path for entry in published.shards} if published else set()
        surplus = [path for path in self._shown_now - listed if path.endswith(".parquet")]  # prompt files do no harm
        self._remove(surplus, state)

    def _remove(self, paths: Iterable[str], state: str | None) -> None:
        """Removes files from the bucket, while the lease is valid and the manifest is in this state (None: missing).

        Another run may already have uploaded or listed the same files, since their names are determined by content.

        Raises:
            StoreError: the lease is lost, somebody else has published, or the bucket fails; the other files are left.
        """
        for path in paths:
            self._lease.check()
            self._check_manifest(state)
            self._bucket.remove(path)
            self._record_copy(path, None)

    def _copy_all(self, calls: Iterable[Callable[[], None]]) -> None:
        """Runs these uploads or downloads in parallel; raises the first error after all have ended."""
        futures = [self._pool.submit(call) for call in calls]
        errors = [error for each in futures if (error := each.exception()) is not None]
        if errors:
            raise errors[0]

    def _upload(self, *paths: str) -> None:
        """Uploads files one after another, while the lease is valid.

        Raises:
            ConcurrentChange: another run has written a file whose name does not determine its content.
            StoreError: the lease is lost, or the bucket fails.
        """
        for path in paths:
            self._lease.check()
            stamp = self._read_stamp(path)
            if path.startswith(_NAMED_BY_CONTENT):
                self._bucket.upload(path, self._store.resolve_path(path))
                state = self._bucket.get_state(path) or ""
            else:
                state = self._bucket.put(path, self._store.read_bytes(path), self._get_known_state(path))
            if stamp is not None:
                self._record_copy(path, (state, stamp))

    def _download(self, path: str, state: str) -> None:
        """Downloads a file, replaces the local one, and records it as a copy of `state`, which is not checked again."""
        with self._store.open_for_writing(path) as sink:
            for piece in self._bucket.read_pieces(path, 1 << 23):
                sink.write(piece)
        if (stamp := self._read_stamp(path)) is not None:
            self._record_copy(path, (state, stamp))

    def _list_new(self) -> list[str]:
        """Returns the local files that are not in the bucket in their present version."""
        paths = (each.relative_to(self._folder).as_posix() for each in self._folder.rglob("*") if each.is_file())
        return sorted(path for path in paths if not _STAYS.fullmatch(path) and not self._is_unchanged(path))

    def _read_stamp(self, path: str) -> Stamp | None:
        """Returns size and modification time of a local file; None if it does not exist."""
        try:
            found = (self._folder / path).stat()
        except FileNotFoundError:
            return None
        return found.st_size, found.st_mtime_ns

    def _is_unchanged(self, path: str, state: str | None = None) -> bool:
        """Returns whether the local file has not changed since it was copied; False if it never was.

        If `state` is given, the file in the bucket must also have had this state then.
        """
        known = self._same.get(path)
        return known is not None and known[1] == self._read_stamp(path) and state in (None, known[0])

    def _read_index(self) -> None:
        """Reads the index of files that earlier runs on this machine have copied, and rewrites it without old entries.

        A line that was cut off when a run was killed is ignored.
        """
        path = self._folder / INDEX
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in lines:
            with suppress(ValueError):
                self._apply_index_entry(*json.loads(line))
        self._store.write_bytes(INDEX, b"".join(_format_line(path, known) for path, known in self._same.items()))

    def _apply_index_entry(self, path: str, known: Any) -> None:
        """Updates a file's entry in memory: its state in the bucket and its local stamp; None removes the entry."""
        if known is None:
            self._same.pop(path, None)
        else:
            state, (n_bytes, mtime_ns) = known
            self._same[path] = (state, (n_bytes, mtime_ns))

    def _record_copy(self, path: str, known: tuple[str, Stamp] | None) -> None:
        """Records in the index that a file is the same in both places, at this state and stamp; None: no longer."""
        with self._lock, (self._folder / INDEX).open("ab") as index:
            self._apply_index_entry(path, known)
            index.write(_format_line(path, known))


def _format_line(path: str, known: tuple[str, Stamp] | None) -> bytes:
    """Returns an entry of the index as a line of JSON."""
    return f"{json.dumps([path, known])}\n".encode()
