"""Datasets in buckets: `s3://bucket/prefix` and `gs://bucket/prefix`, read in place and written file by file.

It uses fsspec: s3fs for S3 and servers with its protocol (the usual AWS variables and `AWS_ENDPOINT_URL`), gcsfs for
Google Cloud Storage. An object is complete or absent: a large one is uploaded in parts and appears after the last part.
Files that several machines may write are written with a precondition (optimistic locking): only if they are unchanged.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import fsspec

from data_schemas.errors import ConfigError, KameError, StoreError
from data_schemas.store import Store

_EXTRAS: Final = {"s3": "s3", "gs": "gcs"}
"""Protocols of buckets, and the extra of this package that each needs."""
_CHANGED: Final = {"PreconditionFailed", "ConditionalRequestConflict", "409", "412"}
"""Error codes of servers for a failed precondition."""


class ConcurrentChange(StoreError):
    """A file of a bucket has changed since it was read, so it was not written."""


def is_in_bucket(root: str) -> bool:
    """Whether this is the address of a dataset in a bucket (`s3://` or `gs://`) rather than a folder."""
    return root.partition("://")[0] in _EXTRAS and "://" in root


class Bucket(Store):
    """The files of a dataset in a bucket.

    Args:
        address: `s3://bucket/prefix` or `gs://bucket/prefix`.

    Raises:
        ConfigError: if the address has no bucket, or the client library is not installed.
    """

    def __init__(self, address: str) -> None:
        protocol, _, place = address.partition("://")
        place = place.strip("/")
        if protocol not in _EXTRAS or not place:
            raise ConfigError(f"{address} has no bucket.", "Write s3://BUCKET/PREFIX or gs://BUCKET/PREFIX.")
        try:
            fs = fsspec.filesystem(protocol, use_listings_cache=False, skip_instance_cache=True)
        except ImportError as error:
            raise ConfigError(
                f"{protocol}:// is not supported: {error}.", f"Install kame-pipeline[{_EXTRAS[protocol]}]."
            ) from error
        super().__init__(place, fs)
        self.address = f"{protocol}://{place}"
        self._is_s3 = protocol == "s3"

    def exists(self, path: str) -> bool:
        """Whether an object, or any below it, exists; raises StoreError if the bucket cannot be read."""
        with self.translate_errors(path, "look for"):
            return super().exists(path)

    def list_files(self, folder: str, suffix: str = "") -> list[str]:
        """Returns the sorted paths of all files below a folder; raises StoreError if the bucket cannot be read."""
        with self.translate_errors(folder, "list"):
            return super().list_files(folder, suffix)

    def remove(self, path: str) -> None:
        """Deletes a file; if it does not exist, that is not an error."""
        with self.translate_errors(path, "remove"), suppress(FileNotFoundError):
            self.fs.rm_file(self.resolve_path(path))

    def list_states(self) -> dict[str, str]:
        """Returns the states of all files by path: ETag (S3) or generation (Google), which changes with the content.

        It is empty if there are no files. Raises StoreError if the bucket cannot be read.
        """
        with self.translate_errors("", "list"):
            found = self.fs.find(self.root, detail=True)
        return {name.removeprefix(f"{self.root}/"): _get_state(info) for name, info in found.items()}

    def get_state(self, path: str) -> str | None:
        """Returns the state of a file (see `list_states`); None if there is no such file."""
        with self.translate_errors(path, "look for"):
            try:
                return _get_state(self.fs.info(self.resolve_path(path)))
            except FileNotFoundError:
                return None

    def read_pieces(self, path: str, n_bytes: int) -> Iterator[bytes]:
        """Iterates over the content of a file, at most `n_bytes` at a time.

        Raises:
            StoreError: it does not exist, or the bucket fails.
        """
        with (
            self.translate_errors(path, "read"),
            self.fs.open(self.resolve_path(path), "rb", cache_type="none") as source,
        ):
            while piece := source.read(n_bytes):
                yield piece

    def upload(self, path: str, local: str) -> None:
        """Uploads a local file, and replaces an existing one, whatever its state; the object is complete or absent.

        Raises:
            StoreError: the bucket fails or does not exist, or the local file cannot be read.
        """
        if not Path(local).is_file():
            raise StoreError(
                f"Cannot upload {local}: there is no such file.", "Run the same command again; it makes it."
            )
        try:
            with self.translate_errors(path, "write"):
                self.fs.put_file(local, self.resolve_path(path))
        except StoreError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise self._make_no_bucket_error() from error
            raise

    def put(self, path: str, data: bytes, state: str | None) -> str:
        """Writes a small file if its state is unchanged, and returns its new state.

        A file whose state has changed, but which has just this content, is not an error.

        Args:
            path: the file.
            data: its new content.
            state: its state when it was read; None: it did not exist.

        Raises:
            ConcurrentChange: another client has written or removed it; it is not changed.
            StoreError: the bucket does not exist, the server fails, or it rejects the request.
        """
        try:
            with self.translate_errors(path, "write"):
                return self._put(path, data, state)
        except StoreError as error:
            is_gone = isinstance(error.__cause__, FileNotFoundError)
            if is_gone and state is None:
                raise self._make_no_bucket_error() from error
            if not is_gone and not _is_refusal(error.__cause__):
                raise
            now = self.get_state(path)  # a retry after a lost reply fails because of our own write
            if now is not None and self.read_bytes(path) == data:
                return now
            raise ConcurrentChange(
                f"{self.address}/{path} was changed by somebody else since it was read.",
                "Run the same command again: it reads the current files and makes only what is missing.",
            ) from error

    def _make_no_bucket_error(self) -> StoreError:
        return StoreError(f"The bucket of {self.address} does not exist.", "Create the bucket first.")

    def _put(self, path: str, data: bytes, state: str | None) -> str:
        """Writes a file if its state is unchanged, and returns the new state; raises the errors of the client."""
        bucket, key, *_ = self.fs.split_path(self.resolve_path(path))
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
        return _get_state(made)

    @contextmanager
    def translate_errors(self, path: str, doing: str) -> Iterator[None]:
        """Converts errors of the bucket's client in the block to a `StoreError`: `Cannot DOING ADDRESS/PATH`, and why.

        Errors of this project are not converted. If there is no such file, the message says that.
        """
        try:
            yield
        except KameError:
            raise
        except FileNotFoundError as error:
            raise StoreError(f"{self.address}/{path} does not exist.", "Run the command that makes it.") from error
        except Exception as error:  # these clients raise errors of many libraries
            why = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
            raise StoreError(
                f"Cannot {doing} {self.address}/{path}: {why}.",
                "Check the network, the address and the credentials, and run the same command again.",
            ) from error


def _get_state(info: dict[str, Any]) -> str:
    """Returns the state of a file from what the client reports about it: S3's ETag, or Google's generation."""
    return str(info.get("ETag") or info["generation"])


def _is_refusal(error: BaseException | None) -> bool:
    """Whether a client's error, or one of its causes, is a failed precondition (gcsfs raises `FileExistsError`)."""
    while error is not None:
        if isinstance(error, FileExistsError):
            return True
        response = getattr(error, "response", None)
        code = response.get("Error", {}).get("Code") if isinstance(response, dict) else getattr(error, "code", None)
        if str(code) in _CHANGED:
            return True
        error = error.__cause__
    return False
