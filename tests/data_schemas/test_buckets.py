"""Conditional writes to Google Cloud Storage; those of S3 are tested in tests/pipelines/run/test_mirror.py."""

from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from data_schemas.buckets import Bucket, ConcurrentChange


class RefusingGcs(MemoryFileSystem):  # type: ignore[misc]
    """Files in memory, with what `Bucket` uses of gcsfs; every conditional write finds the file changed."""

    _location = "http://127.0.0.1:1"

    def split_path(self, path: str) -> tuple[str, str, None]:
        bucket, _, key = path.partition("/")
        return bucket, key, None

    def call(self, method: str, path: str, **parameters: Any) -> None:
        raise FileExistsError(path)  # as gcsfs does for status 412

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        return {**super().info(path, **options), "generation": "2"}


def test_a_file_that_another_client_changed_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsspec, "filesystem", lambda *args, **options: RefusingGcs(skip_instance_cache=True))
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    bucket = Bucket("gs://corpora/team")
    bucket.fs.pipe_file("corpora/team/dataset.json", b"theirs")
    for state in (None, "1"):
        with pytest.raises(ConcurrentChange, match=r"gs://corpora/team/dataset\.json was changed by somebody else"):
            bucket.put("dataset.json", b"ours", state)
        assert bucket.put("dataset.json", b"theirs", state) == "2", "our own write, whose reply was lost"
