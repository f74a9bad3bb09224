"""Datasets in buckets: `s3://bucket/prefix` and `gs://bucket/prefix`, read in place and written file by file.

fsspec reaches them: S3 and what speaks its protocol by s3fs (the usual AWS variables and `AWS_ENDPOINT_URL`), Google's
by gcsfs. An object is whole or not there: a large one is uploaded in pieces and appears when the last is in. A file
that several machines may write is put on condition that it is still as it was read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import fsspec

from data_schemas.errors import ConfigError, KameError, StoreError
from data_schemas.store import Store

_EXTRAS: Final = {"s3": "s3", "gs": "gcs"}
"""Protocols of buckets, and what of ours to install for each."""
_CHANGED: Final = {"PreconditionFailed", "ConditionalRequestConflict", "409", "412"}
"""What servers call a condition that does not hold."""


class ChangedMeanwhile(StoreError):
    """A file of a bucket is no longer as it was read, so it was not written."""


def is_in_bucket(root: str) -> bool:
    """Whether this names a dataset in a bucket rather than a folder."""
    return root.partition("://")[0] in _EXTRAS and "://" in root


class Bucket(Store):
    """A dataset's files in a bucket.

    Args:
        address: `s3://bucket/prefix` or `gs://bucket/prefix`.

    Raises:
        ConfigError: it names no bucket, or the library that reaches it is not installed.
    """

    def __init__(self, address: str) -> None:
        protocol, _, place = address.partition("://")
        place = place.strip("/")
        if protocol not in _EXTRAS or not place:
            raise ConfigError(f"{address} names no bucket.", "Write s3://BUCKET/PREFIX or gs://BUCKET/PREFIX.")
        try:
            fs = fsspec.filesystem(protocol, use_listings_cache=False, skip_instance_cache=True)
        except ImportError as error:
            raise ConfigError(
                f"{protocol}:// cannot be reached: {error}.", f"Install kame-pipeline[{_EXTRAS[protocol]}]."
            ) from error
        super().__init__(place, fs)
        self.address = f"{protocol}://{place}"
        self._is_s3 = protocol == "s3"

    def exists(self, path: str) -> bool:
        """See `Store.exists`."""
        with self.translated(path, "look for"):
            return super().exists(path)

    def files(self, folder: str, suffix: str = "") -> list[str]:
        """See `Store.files`."""
        with self.translated(folder, "list"):
            return super().files(folder, suffix)

    def remove(self, path: str) -> None:
        """See `Store.remove`; a file that does not exist is not an error."""
        with self.translated(path, "remove"):
            try:
                super().remove(path)
            except FileNotFoundError:
                return

    def states(self) -> dict[str, str]:
        """Returns all files, each with a mark that changes with its content."""
        with self.translated("", "list"):
            found = self.fs.find(self.root, detail=True)
        return {name.removeprefix(f"{self.root}/"): _state(info) for name, info in found.items()}

    def state(self, path: str) -> str | None:
        """Returns a file's mark; None if there is no such file."""
        with self.translated(path, "look for"):
            try:
                return _state(self.fs.info(self.at(path)))
            except FileNotFoundError:
                return None

    def upload(self, path: str, local: str) -> None:
        """Puts a local file there, in the place of what may be there; it is whole or not there."""
        with self.translated(path, "write"):
            self.fs.put_file(local, self.at(path))

    def put(self, path: str, data: bytes, state: str | None) -> str:
        """Writes a small file if it is still as it was, and gives its new mark.

        Args:
            state: the mark it had when it was read; None: it was not there.

        Raises:
            ChangedMeanwhile: somebody else has written or removed it; it is left as it is.
            StoreError: the server fails, or refuses.
        """
        try:
            with self.translated(path, "write"):
                return self._put(path, data, state)
        except (StoreError, FileNotFoundError) as error:
            is_gone = isinstance(error, FileNotFoundError)
            if is_gone and state is None:
                raise StoreError(f"{self.address} is in no bucket that is there.", "Make the bucket first.") from error
            if not is_gone and not _is_refusal(error.__cause__):
                raise
            now = self.state(path)  # an answer that was lost is asked for again, and what we wrote ourselves refuses it
            if now is not None and self.read_bytes(path) == data:
                return now
            raise ChangedMeanwhile(
                f"Somebody else has changed {self.address}/{path} meanwhile.",
                "Run the same command again: it takes in what is there now and makes only what is missing.",
            ) from error

    def _put(self, path: str, data: bytes, state: str | None) -> str:
        bucket, key, *_ = self.fs.split_path(self.at(path))
        if self._is_s3:
            condition = {"IfNoneMatch": "*"} if state is None else {"IfMatch": state}
            return str(self.fs.call_s3("put_object", Bucket=bucket, Key=key, Body=data, **condition)["ETag"])
        made = self.fs.call(
            "POST",
            f"{self.fs._location}/upload/storage/v1/b/{bucket}/o",
            uploadType="media",
            name=key,
            ifGenerationMatch=state or "0",
            data=data,
            json_out=True,
        )
        return _state(made)

    @contextmanager
    def translated(self, path: str, doing: str) -> Iterator[None]:
        """Turns what the client of the bucket raises in the block into a `StoreError` that names the file."""
        try:
            yield
        except (KameError, FileNotFoundError):
            raise
        except Exception as error:  # these clients raise errors of many libraries
            why = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
            raise StoreError(
                f"Cannot {doing} {self.address}/{path}: {why}.",
                "Look at the network, the address and the credentials, and run the same command again.",
            ) from error

    def read_bytes(self, path: str) -> bytes:
        """See `Store.read_bytes`."""
        try:
            return super().read_bytes(path)
        except FileNotFoundError as error:
            raise StoreError(f"{self.address}/{path} is not there.", "Run the command that makes it.") from error


def _state(info: dict[str, Any]) -> str:
    """Returns S3's ETag, or Google's generation."""
    return str(info.get("ETag") or info["generation"])


def _is_refusal(error: BaseException | None) -> bool:
    """Whether a client's error, or one that it comes from, says that a condition does not hold."""
    while error is not None:
        response = getattr(error, "response", None)
        code = response.get("Error", {}).get("Code") if isinstance(response, dict) else getattr(error, "code", None)
        if str(code) in _CHANGED:
            return True
        error = error.__cause__
    return False
