"""Model files that are joined or fetched on this machine: where they live, and that they are what they should be.

Every file has a known SHA-256. It is written beside its place and renamed into it, so that no reader ever sees half a
file and two processes that make the same file at once both end with it. A file found damaged is made anew, and the log
says so.
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
    """The folder of model files: `KAME_CACHE` where set, else the user's cache folder of this system."""
    chosen = os.environ.get("KAME_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("kame", appauthor=False))


def is_verified(path: Path, sha256: str) -> bool:
    """Whether there is a file at `path` with this SHA-256 (hexadecimal).

    Raises:
        BackendError: the file is there but cannot be read.
    """
    try:
        return ids.compute_sha256(path) == sha256
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise BackendError(f"Cannot read the model file {path}: {error}.", "Check its permissions.") from error


def ensure(path: Path, sha256: str, blocks: Callable[[], Iterable[bytes]], remedy: str) -> Path:
    """`path`, holding what its SHA-256 promises: as found, or written now.

    Args:
        path: where the file belongs.
        sha256: what it must hash to.
        blocks: gives its content piece by piece; called only when the file is missing or damaged.
        remedy: what to do when that content does not hash to `sha256`.

    Raises:
        BackendError: the content is wrong (nothing is kept), or it cannot be written.
    """
    if is_verified(path, sha256):
        return path
    if path.exists():
        _log.warning("The model file %s is damaged (wrong SHA-256); it is made anew.", path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, sha256, blocks(), remedy)
    except OSError as error:
        raise BackendError(
            f"Cannot write the model file {path}: {error}.", "Free some space, or set KAME_CACHE to another folder."
        ) from error
    return path


def _write(path: Path, sha256: str, blocks: Iterable[bytes], remedy: str) -> None:
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    digest = hashlib.sha256()
    try:
        with beside.open("xb") as file:
            for block in blocks:
                digest.update(block)
                file.write(block)
        if digest.hexdigest() != sha256:
            raise BackendError(f"What was to become {path} has a wrong SHA-256, {digest.hexdigest()}.", remedy)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
