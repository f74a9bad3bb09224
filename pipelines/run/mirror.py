"""A run whose dataset is in a bucket: it works in a folder on this machine, and what it finishes is copied there.

Before the run the folder becomes what the bucket holds, so that any machine goes on where another was killed. Each
part goes up when it is finished, its record last; at the end shards, rejects and prompts, then the manifest, on
condition that nobody has published since this run began, then the card; what is superseded goes last. What a file's
name says all about is put as it is; any other file only where it is as this run read it.

Never copied: the answers of chat models, their log, locks, and what is half written.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, Protocol

from backends.assets import get_cache_dir
from data_schemas.buckets import Bucket, ChangedMeanwhile, is_in_bucket
from data_schemas.config import RefreshConfig
from data_schemas.errors import KameError, StoreError
from data_schemas.manifest import MANIFEST
from data_schemas.reader import read_manifest, read_manifest_if_any
from data_schemas.store import TEMPORARY, Store
from pipelines.run.lease import Lease, held
from pipelines.run.parts import FOLDER as PARTS
from pipelines.run.parts import Part, PartRecord
from pipelines.run.publish import CARD, remove_superseded

SPOOL: Final = "KAME_SPOOL"
"""Environment variable: the folder in which datasets of buckets are worked on; workers of a cluster must reach it."""
INDEX: Final = ".store/mirror.jsonl"
COPIES_AT_ONCE: Final = 8
_STAYS: Final = re.compile(
    rf"\.store/(lock|answers\.sqlite.*|mirror\.jsonl|lease\.json)|runs/.*\.chat\.jsonl|.*{TEMPORARY}"
)
"""What is this machine's alone."""
_SHOWN: Final = ("data/", "oracles/", "rejects/", "prompts/")
"""Files of which the manifest tells; their names say all of their content."""
_NAMED_BY_CONTENT: Final = (*_SHOWN, f"{PARTS}/", "runs/")


class Progress(Protocol):
    """What is told how far a run is."""

    def stage(self, name: str, n_items: int) -> None:
        """A stage begins."""

    def on_part(self, stage: str, part: Part, record: PartRecord) -> None:
        """A stage has a part's output."""


def folder_of(out: str) -> str:
    """The folder on this machine in which a dataset is worked on: itself, or one that stands for its bucket."""
    if not is_in_bucket(out):
        return out
    server = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    name = hashlib.sha256(f"{server} {out.rstrip('/')}".encode()).hexdigest()[:16]
    above = Path(os.environ.get(SPOOL) or get_cache_dir() / "spool").expanduser()
    return str(above / f"{re.sub(r'[^A-Za-z0-9]+', '-', out).strip('-')}-{name}")


@contextmanager
def mirrored(config: RefreshConfig, progress: Progress) -> Iterator[tuple[RefreshConfig, Progress]]:
    """The configuration and progress with which a run works; of a dataset in a folder, those that are given.

    When the block ends well the dataset is published; else what was finished is copied, for whoever goes on.

    Raises:
        StoreError: another run writes there, the bucket fails, or somebody else has published meanwhile.
        ConfigError: the address names no bucket, or its library is not installed.
    """
    if not is_in_bucket(config.out):
        yield config, progress
        return
    bucket, folder = Bucket(config.out), folder_of(config.out)
    with held(bucket) as lease, Mirror(bucket, folder, lease) as mirror:
        mirror.pull()
        try:
            yield config.model_copy(update={"out": folder}), _Copying(progress, mirror)
        except BaseException:
            with suppress(KameError):  # the run's own error is the one to tell
                mirror.push()
            raise
        mirror.publish()


class _Copying:
    """Progress that has each part copied as it is finished."""

    def __init__(self, progress: Progress, mirror: "Mirror") -> None:
        self._progress, self._mirror = progress, mirror

    def stage(self, name: str, n_items: int) -> None:
        self._mirror.push()  # what was planned, and what the stage before left
        self._progress.stage(name, n_items)

    def on_part(self, stage: str, part: Part, record: PartRecord) -> None:
        self._mirror.push_part(part, stage)
        self._progress.on_part(stage, part, record)


Stamp = tuple[int, int]
"""Size and time of change of a local file, which tell whether it is as it was copied."""


class Mirror:
    """A folder of this machine and a dataset in a bucket, and what is known to be the same in both.

    Args:
        bucket: the dataset.
        folder: on this machine; made where it is not there.
        lease: asked before anything is written.
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
        self._pool.shutdown(cancel_futures=True)

    def pull(self) -> None:
        """Makes the folder what the bucket holds; what was made here and never copied stays."""
        there = {path: state for path, state in self._bucket.list_states().items() if not _STAYS.fullmatch(path)}
        for path in self._same.keys() - there.keys():
            if self._is_as_copied(path):
                self._store.remove(path)
            self._note(path, None)
        stale = [path for path, state in there.items() if not self._is_as_copied(path, state)]
        self._do(partial(self._download, path, there[path]) for path in stale)

    def push_part(self, part: Part, stage: str) -> None:
        """Has a part's output copied, its record after it; raises what went wrong with an earlier one."""
        done = [each for each in self._copying if each.done()]
        self._copying = [each for each in self._copying if not each.done()]
        for each in done:
            each.result()
        new = [path for path in (part.path(stage), part.record_path(stage)) if not self._is_as_copied(path)]
        if new:
            self._copying.append(self._pool.submit(self._upload, *new))

    def push(self) -> None:
        """Copies all that is new here, but what makes the dataset that others see."""
        copying, self._copying = self._copying, []
        for each in copying:
            each.result()
        new = [path for path in self._new() if not path.startswith(_SHOWN) and path not in (MANIFEST, CARD)]
        first = [path for path in new if path.endswith(".parquet") and path.startswith(_NAMED_BY_CONTENT)]
        for wave in (first, [path for path in new if path not in first]):  # records after what they tell of
            self._do(partial(self._upload, path) for path in wave)

    def publish(self) -> None:
        """Copies everything, the manifest on condition, and removes what is superseded.

        Raises:
            StoreError: somebody else has published meanwhile; the dataset is theirs, whole.
        """
        self.push()
        try:
            self._check_manifest()
            shown = [path for path in self._new() if path.startswith(_SHOWN)]
            self._shown_now.update(shown)
            self._do(partial(self._upload, path) for path in shown)
            self._upload(*(path for path in (MANIFEST,) if not self._is_as_copied(path)))
        except ChangedMeanwhile as error:
            self._remove_ours()
            raise StoreError(
                f"Another run has published {self._bucket.address} since this one began; theirs stands.",
                "Run the same command again: it takes in what they published and makes only what is missing.",
            ) from error
        self._upload(*(path for path in (CARD,) if not self._is_as_copied(path)))
        remove_superseded(self._bucket, read_manifest(self._store))
        for path in [path for path in self._same if not self._store.exists(path)]:
            self._bucket.remove(path)
            self._note(path, None)

    def _check_manifest(self) -> None:
        """Whether nobody has published, before gigabytes are copied for nothing."""
        known = self._same.get(MANIFEST)
        if self._bucket.get_state(MANIFEST) != (known[0] if known else None):
            raise ChangedMeanwhile(f"{self._bucket.address}/{MANIFEST} is another than this run began with.")

    def _remove_ours(self) -> None:
        """Removes the files that this run has put and that the manifest of another does not list."""
        theirs = read_manifest_if_any(self._bucket)
        listed = {entry.path for entry in theirs.shards} if theirs else set()
        for path in self._shown_now - listed:
            if path.endswith(".parquet"):  # prompts, however many, are no fault of a dataset's
                self._bucket.remove(path)
                self._note(path, None)

    def _do(self, calls: Iterable[Callable[[], None]]) -> None:
        """Makes copies, several at once; raises the first error when all are through."""
        futures = [self._pool.submit(call) for call in calls]
        errors = [error for each in futures if (error := each.exception()) is not None]
        if errors:
            raise errors[0]

    def _upload(self, *paths: str) -> None:
        for path in paths:
            self._lease.check()
            stamp, known = self._stamp(path), self._same.get(path)
            if path.startswith(_NAMED_BY_CONTENT):
                self._bucket.upload(path, self._store.at(path))
                state = self._bucket.get_state(path) or ""
            else:
                state = self._bucket.put(path, self._store.read_bytes(path), known[0] if known else None)
            if stamp is not None:
                self._note(path, (state, stamp))

    def _download(self, path: str, state: str) -> None:
        with (
            self._bucket.translated(path, "read"),
            self._bucket.fs.open(self._bucket.at(path), "rb", cache_type="none") as source,
            self._store.writing(path) as sink,
        ):
            shutil.copyfileobj(source, sink, 1 << 23)
        if (stamp := self._stamp(path)) is not None:
            self._note(path, (state, stamp))

    def _new(self) -> list[str]:
        """Files of the folder that are not in the bucket as they are here."""
        paths = (each.relative_to(self._folder).as_posix() for each in self._folder.rglob("*") if each.is_file())
        return sorted(path for path in paths if not _STAYS.fullmatch(path) and not self._is_as_copied(path))

    def _stamp(self, path: str) -> Stamp | None:
        try:
            found = (self._folder / path).stat()
        except FileNotFoundError:
            return None
        return found.st_size, found.st_mtime_ns

    def _is_as_copied(self, path: str, state: str | None = None) -> bool:
        """Whether a file is here as it was copied, and, where `get_state` is given, there too."""
        known = self._same.get(path)
        return known is not None and known[1] == self._stamp(path) and state in (None, known[0])

    def _read_index(self) -> None:
        """What was copied by earlier runs of this machine; a line that a kill cut off is as good as none."""
        path = self._folder / INDEX
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in lines:
            with suppress(ValueError):
                self._take_note(*json.loads(line))
        self._store.write_bytes(INDEX, b"".join(_line(path, known) for path, known in self._same.items()))

    def _take_note(self, path: str, known: Any) -> None:
        if known is None:
            self._same.pop(path, None)
        else:
            state, (n_bytes, mtime_ns) = known
            self._same[path] = (state, (n_bytes, mtime_ns))

    def _note(self, path: str, known: tuple[str, Stamp] | None) -> None:
        with self._lock, (self._folder / INDEX).open("ab") as index:
            self._take_note(path, known)
            index.write(_line(path, known))


def _line(path: str, known: tuple[str, Stamp] | None) -> bytes:
    return f"{json.dumps([path, known])}\n".encode()
