"""The sound of a session that is being recorded: a FLAC file beside the recordings, which nobody takes for one."""

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import soundfile

from backends.engine import Samples
from data_schemas.errors import StoreError
from data_schemas.store import TEMPORARY, Store
from data_schemas.units import SAMPLE_RATE_HZ

_log = logging.getLogger(__name__)


class SoundBeside:
    """Grows a block at a time; there is no file before the first. Used in one thread.

    A block that cannot be written spoils the whole: `take` then raises what happened, and nothing is kept.
    """

    def __init__(self, store: Store, session_id: str) -> None:
        self._path = Path(store.at(f"{session_id}.{uuid.uuid4().hex}{TEMPORARY}"))
        self._file: Any = None
        self._failure: StoreError | None = None

    def write(self, block: Samples) -> None:
        """Adds sound, float32 [n_samples, 2]: what was said on the left, what was heard on the right."""
        if self._failure is not None:
            return
        try:
            with self._translated():
                self._opened().write(block)
        except StoreError as error:
            self.discard()
            self._failure = error

    def take(self) -> bytes:
        """The whole sound as FLAC, of which no file is left; empty where there was none.

        Raises:
            StoreError: a block could not be written, or the file cannot be read.
        """
        if self._failure is not None:
            raise self._failure
        if self._file is None:
            return b""
        try:
            with self._translated():
                self._file.close()
                return self._path.read_bytes()
        finally:
            self.discard()

    def discard(self) -> None:
        """Leaves nothing of it."""
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
        except soundfile.LibsndfileError:
            _log.warning("The sound beside %s could not be closed; it is deleted all the same.", self._path)
        finally:
            self._path.unlink(missing_ok=True)

    def _opened(self) -> Any:
        if self._file is None:
            self._file = soundfile.SoundFile(
                self._path, "w", SAMPLE_RATE_HZ, channels=2, format="FLAC", subtype="PCM_16"
            )
        return self._file

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (OSError, soundfile.LibsndfileError) as error:
            why = str(error).rstrip(".")
            raise StoreError(f"Cannot record into {self._path.parent}: {why}.", "Look at its disk.") from error
