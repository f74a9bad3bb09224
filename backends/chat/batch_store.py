"""Which batches are under way, in the file of the answers: what was handed in once is never handed in again."""

import json
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from backends.chat.cache import ReplyCache
from data_schemas.errors import BackendError


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """A file of requests at an endpoint and the batch made of it; no `batch_id`: not known to be made yet."""

    file_id: str
    batch_id: str | None
    keys: tuple[str, ...]


class BatchStore:
    """The open batches of one endpoint.

    Raises:
        StoreError: the file cannot be read or written (all methods).
    """

    def __init__(self, cache: ReplyCache, endpoint_name: str) -> None:
        self._cache = cache
        self._endpoint_name = endpoint_name
        path = Path(f"{cache.path}.batches.lock").resolve()
        self._lock = FileLock(path, timeout=0, is_singleton=True, thread_local=False)  # one a process and path
        self._has_claimed = False

    def claim(self) -> None:
        """Keeps the batches of all endpoints for this process, until `release` or its end.

        Raises:
            BackendError: another process has them: both would make a batch of the same file.
        """
        try:
            self._lock.acquire()
            self._has_claimed = True
        except Timeout:
            raise BackendError(
                f"Another process waits for batches whose answers go into {self._cache.path}.",
                "Wait for it or end it, then run again: its batches and answers are kept.",
            ) from None

    def release(self) -> None:
        """Gives back what this one claimed."""
        if self._has_claimed:
            self._has_claimed = False
            self._lock.release()

    def open_batches(self) -> list[OpenBatch]:
        """All that an earlier run or this one left open."""
        rows = self._cache.run(
            "SELECT file_id, batch_id, keys FROM batches WHERE endpoint = ? ORDER BY file_id", (self._endpoint_name,)
        )
        return [OpenBatch(file_id, batch_id, tuple(json.loads(keys))) for file_id, batch_id, keys in rows]

    def uploaded(self, file_id: str, keys: list[str]) -> OpenBatch:
        """Notes a file before a batch is made of it: a kill between the two must not make two batches."""
        self._cache.run("INSERT INTO batches VALUES (?, NULL, ?, ?)", (file_id, self._endpoint_name, json.dumps(keys)))
        return OpenBatch(file_id, None, tuple(keys))

    def made(self, batch: OpenBatch, batch_id: str) -> OpenBatch:
        """Notes the batch made of a file."""
        self._cache.run("UPDATE batches SET batch_id = ? WHERE file_id = ?", (batch_id, batch.file_id))
        return OpenBatch(batch.file_id, batch_id, batch.keys)

    def closed(self, batch: OpenBatch) -> None:
        """Forgets a batch whose answers are in the cache."""
        self._cache.run("DELETE FROM batches WHERE file_id = ?", (batch.file_id,))
