"""A lease that locks a dataset in a bucket across machines: an object that names the writer and the time of expiry.

It is taken and renewed by a conditional write, so only one of two competing runs gets it. The lease of a killed run
expires. Clocks of machines may differ, and a run may be suspended past the expiry; therefore nothing relies on the
lease alone, and the manifest too is written only if it is still as the run found it.
"""

import json
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil  # type: ignore[import-untyped]

from data_schemas import ids
from data_schemas.buckets import Bucket, ConcurrentChange
from data_schemas.errors import StoreError

LEASE: Final = ".store/lease.json"
HELD_S: Final = 120.0
"""Seconds until a lease expires after it was taken or renewed: how long another machine waits for a killed run."""
RENEWALS: Final = 4
"""Number of renewals in that time."""
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
"""Random id of the running kernel on Linux; the containers of a machine have the same."""
PID_NAMESPACE: Final = Path("/proc/self/ns/pid")
"""Link that names the namespace of process ids on Linux; each container has one of its own, unless set otherwise."""


class Lease:
    """The right to write to a dataset in a bucket, valid while it is renewed."""

    def __init__(self, bucket: Bucket, now: Callable[[], float] = time.time) -> None:
        self._bucket, self._now = bucket, now
        self._owner = ids.digest(platform.node(), os.getpid(), os.urandom(16).hex())
        self._state: str | None = None
        self._until_s = 0.0
        self._is_lost = False

    def take(self) -> None:
        """Takes the lease for `HELD_S`, by writing its object in the bucket.

        Raises:
            StoreError: another run holds it, or the bucket is not writable.
        """
        state = self._bucket.get_state(LEASE)
        if state is not None:
            self._refuse_if_held(json.loads(self._bucket.read_bytes(LEASE)))
        try:
            self._write(state, self._now() + HELD_S)
        except ConcurrentChange as error:
            raise StoreError(
                f"Another run has just begun to write {self._bucket.address}.", "Wait for it, or choose another --out."
            ) from error

    def renew(self) -> None:
        """Extends the lease to `HELD_S` from now; raises nothing: `check` does if another run took it or it expired."""
        try:
            self._write(self._state, self._now() + HELD_S)
        except ConcurrentChange:
            self._is_lost = True
        except StoreError:  # the next renewal may succeed; `check` raises once the lease has expired
            return

    def check(self) -> None:
        """Checks that this run may still write.

        Raises:
            StoreError: another run has taken the lease, or it could not be renewed in time.
        """
        if self._is_lost or self._now() > self._until_s:
            raise StoreError(
                f"This run no longer holds the lease of {self._bucket.address}: "
                f"{'another run has begun to write there' if self._is_lost else 'the bucket was not reached in time'}.",
                "It has stopped writing. Run the same command again when no other run writes there.",
            )

    def release(self) -> None:
        """Releases the lease, so that others can take it at once; errors of the bucket are ignored."""
        if not self._is_lost:
            try:
                self._write(self._state, 0.0)
            except StoreError:  # the lease expires by itself
                return

    def _refuse_if_held(self, held: dict[str, Any]) -> None:
        """Raises `StoreError` if another run's lease has not expired; that of a dead process has.

        Whether a process lives is only known on its own host and in its own container.
        """
        left_s = float(held["until_s"]) - self._now()
        is_from_here = all(held.get(name) == value for name, value in _identify_process_ids().items())
        is_dead = is_from_here and not psutil.pid_exists(held["process"])
        if left_s > 0 and not is_dead:
            raise StoreError(
                f"Another run is writing {self._bucket.address}: process {held['process']} on {held['host']}.",
                f"Wait for it, or choose another --out. If it was killed, run again in {left_s:.0f} s.",
            )

    def _write(self, state: str | None, until_s: float) -> None:
        """Writes the lease; raises `ConcurrentChange` if its object has another state than `state` (None: missing)."""
        holder = {"owner": self._owner, **_identify_process_ids(), "process": os.getpid(), "until_s": until_s}
        self._state = self._bucket.put(LEASE, json.dumps(holder).encode(), state)
        self._until_s = until_s


def _identify_process_ids() -> dict[str, str]:
    """Returns host name, boot id and process id namespace, within which a process id names one process.

    Boot id and namespace are empty where the system has none (macOS).
    """
    boot_id = BOOT_ID.read_text(encoding="ascii").strip() if BOOT_ID.exists() else ""
    namespace = str(PID_NAMESPACE.readlink()) if PID_NAMESPACE.is_symlink() else ""
    return {"host": platform.node(), "boot_id": boot_id, "pid_namespace": namespace}


@contextmanager
def hold_lease(bucket: Bucket) -> Iterator[Lease]:
    """Takes the lease of a dataset in a bucket for a `with` block, renews it in a thread, and releases it at the end.

    Raises:
        StoreError: as `Lease.take`.
    """
    lease, ended = Lease(bucket), threading.Event()
    lease.take()

    def renew_until_the_end() -> None:
        while not ended.wait(HELD_S / RENEWALS):
            lease.renew()

    renewing = threading.Thread(target=renew_until_the_end, name="lease", daemon=True)
    renewing.start()
    try:
        yield lease
    finally:
        ended.set()
        renewing.join()
        lease.release()
