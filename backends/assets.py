"""Cache of model files: the cache directory, downloads or joins into it, and SHA-256 checks.

Every file has a known SHA-256. It is written under a temporary name and renamed, so that no reader sees a partial file
and two processes that create the same file at once both end with it. A damaged file is created again, and this is
logged.
"""

import hashlib
import logging
import os
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from data_schemas import ids
from data_schemas.errors import BackendError

_log = logging.getLogger(__name__)


def get_cache_dir() -> Path:
    """Returns the cache directory of model files: `KAME_CACHE`, else the user's cache directory. It may not exist."""
    chosen = os.environ.get("KAME_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("kame", appauthor=False))


def is_verified(path: Path, sha256: str) -> bool:
    """Returns whether there is a file at `path` with this SHA-256 (hexadecimal).

    Raises:
        BackendError: the file exists but cannot be read.
    """
    try:
        return ids.compute_sha256(path) == sha256
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise BackendError(f"Cannot read the model file {path}: {error}.", "Check its permissions.") from error


def ensure_file(path: Path, sha256: str, blocks: Callable[[], Iterable[bytes]], remedy: str) -> Path:
    """Creates a file unless it exists with the right SHA-256, and returns its path.

    Args:
        path: where the file belongs.
        sha256: the SHA-256 of its content, hexadecimal.
        blocks: yields the content in pieces; called only if the file is missing or damaged.
        remedy: what to do if that content does not have this SHA-256.

    Raises:
        BackendError: the new content is wrong (it is not kept; a damaged file stays as it is), or the file cannot be
            read or written.
    """
    if is_verified(path, sha256):
        return path
    if path.exists():
        _log.warning("The model file %s is damaged (wrong SHA-256) and is created again.", path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, sha256, blocks(), remedy)
    except OSError as error:
        raise BackendError(
            f"Cannot write the model file {path}: {error}.", "Free some space, or set KAME_CACHE to another folder."
        ) from error
    return path


def _write(path: Path, sha256: str, blocks: Iterable[bytes], remedy: str) -> None:
    """Writes the file under a temporary name, and renames it if its SHA-256 is right; else raises BackendError."""
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    digest = hashlib.sha256()
    try:
        with beside.open("xb") as file:
            for block in blocks:
                digest.update(block)
                file.write(block)
        if digest.hexdigest() != sha256:
            raise BackendError(f"The new content of {path} has a wrong SHA-256, {digest.hexdigest()}.", remedy)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
