"""Admission: limits the callers to those that the device can serve, and to a maximum per address."""

from collections import Counter, deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NoReturn, Protocol

from data_schemas.config.serving import LimitsConfig
from kame_model.serve.device.frame_meter import FrameMeter

RefusalReason = Literal["full", "busy", "too_slow", "measuring", "too_many_sessions", "too_many_starts", "draining"]
"""full: every slot is taken · busy: the other sessions would miss real time · too_slow: not even one caller has real
time, which makes the server unready but refuses nobody · measuring: the number of slots is being measured ·
too_many_sessions, too_many_starts: of this address · draining: the server is shutting down.
"""

_MINUTE_S = 60.0


class Refused(Exception):
    """A caller is not admitted.

    Attributes:
        reason: one of `RefusalReason`.
        detail: a sentence for people.
    """

    def __init__(self, reason: RefusalReason, detail: str) -> None:
        super().__init__(detail)
        self.reason: RefusalReason = reason
        self.detail = detail


class OtherCallers(Protocol):
    """Exchanges the counts of callers with the server's other processes."""

    def hold_decision(self) -> AbstractContextManager[None]:
        """Locks admission in all processes for a `with` block."""

    def count_present(self, address: str) -> int:
        """Returns the number of the address's sessions in the other processes."""

    def count_started(self, address: str, now_s: float) -> int:
        """Returns the number of sessions that the address began in the other processes within the last minute."""

    def enter(self, address: str, now_s: float) -> None:
        """Announces a session that this process has admitted."""

    def leave(self, address: str) -> None:
        """Announces the end of such a session."""


class NoOthers:
    """Stands for the other processes of a server that has only one."""

    def hold_decision(self) -> AbstractContextManager[None]:
        """Locks nothing, because no other process decides."""
        return nullcontext()

    def count_present(self, address: str) -> int:
        """Returns 0: other processes have no sessions."""
        return 0

    def count_started(self, address: str, now_s: float) -> int:
        """Returns 0: other processes have no sessions."""
        return 0

    def enter(self, address: str, now_s: float) -> None:
        """Ignores the session: no other process counts it."""

    def leave(self, address: str) -> None:
        """Ignores the end of a session, like `enter`."""


class Admission:
    """Admits or refuses each caller.

    Args:
        others: the server's other processes, whose callers count for the limits of an address.

    Attributes:
        n_refused: number of refusals by reason.
        is_measuring: whether nobody is admitted for some seconds, because the device's slots are being recreated.
    """

    def __init__(self, limits: LimitsConfig, meter: FrameMeter, others: OtherCallers | None = None) -> None:
        self.n_refused: Counter[RefusalReason] = Counter()
        self._limits, self._meter, self._others = limits, meter, others or NoOthers()
        self._starts: deque[tuple[float, str]] = deque()
        self._is_draining = self.is_measuring = False

    def drain(self) -> None:
        """Admits nobody from now on."""
        self._is_draining = True

    def find_refusal(
        self, address: str | None, present: Sequence[str], n_free: int, n_on_device: int, now_s: float
    ) -> Refused | None:
        """Returns why a caller would be refused now, or None if it would be admitted. Nothing is counted.

        Args:
            address: the caller's; None: that of a new caller.
            present: the address of each open session.
            n_free: slots without a session.
            n_on_device: sessions that the device would step, including this one unless it is of mode cascade.
            now_s: the time by a monotonic clock.
        """
        limits = self._limits
        while self._starts and self._starts[0][0] <= now_s - _MINUTE_S:
            self._starts.popleft()
        n_started, n_present = sum(each == address for _, each in self._starts), present.count(address)
        if address is not None:
            n_started += self._others.count_started(address, now_s)
            n_present += self._others.count_present(address)
        if self._is_draining:
            return Refused("draining", "The server is shutting down.")
        if n_present >= limits.max_sessions_per_address:
            most = limits.max_sessions_per_address
            return Refused("too_many_sessions", f"There are {most} sessions from your address already.")
        if n_started >= limits.max_starts_per_minute:
            return Refused("too_many_starts", f"Your address started {n_started} sessions in the last minute.")
        if self.is_measuring:
            return Refused("measuring", "The server is measuring how many callers it can serve; try again in a moment.")
        if n_free == 0:
            return Refused("full", "All slots are taken; try again later.")
        return self._find_lack_of_time(len(present), n_on_device, now_s)

    def find_unreadiness(self, present: Sequence[str], n_free: int, n_on_device: int, now_s: float) -> Refused | None:
        """Returns why callers should use another server now, or None if one more is admitted and served in real time.

        A single caller is admitted, and hears gaps, if a machine is too slow even for one: it may be the only one
        available. The arguments are those of `find_refusal`.
        """
        refusal = self.find_refusal(None, present, n_free, n_on_device, now_s)
        if refusal is None and not present and n_on_device and not self._meter.can_serve_alone(now_s):
            return Refused("too_slow", "This machine is too slow, or too busy, to serve even one caller in real time.")
        return refusal

    def admit(self, address: str, present: Sequence[str], n_free: int, n_on_device: int, now_s: float) -> None:
        """Admits a caller and counts the start for its address; the arguments are those of `find_refusal`.

        Raises:
            Refused: the caller cannot be admitted now; the refusal is counted.
        """
        with self._others.hold_decision():
            refusal = self.find_refusal(address, present, n_free, n_on_device, now_s)
            if refusal is None:
                self._others.enter(address, now_s)
        if refusal is not None:
            self._refuse(refusal)
        self._starts.append((now_s, address))

    def leave(self, address: str) -> None:
        """Informs the other processes that an admitted session has ended, or never began; its start still counts."""
        self._others.leave(address)

    def admit_to_device(self, n_others: int, n_on_device: int, now_s: float) -> None:
        """Checks whether the device has time for one more session, of mode cascade until now; nothing is stored.

        Args:
            n_others: the other sessions.
            n_on_device, now_s: as in `find_refusal`.

        Raises:
            Refused: the other sessions would miss real time; the refusal is counted.
        """
        refusal = self._find_lack_of_time(n_others, n_on_device, now_s)
        if refusal is not None:
            self._refuse(refusal)

    def _refuse(self, refusal: Refused) -> NoReturn:
        """Counts a refusal, and raises it."""
        self.n_refused[refusal.reason] += 1
        raise refusal

    def _find_lack_of_time(self, n_others: int, n_on_device: int, now_s: float) -> Refused | None:
        """Returns a refusal if other sessions would miss real time with one more; None if not, or without others.

        Args:
            n_others: the open sessions, without the one to admit.
            n_on_device: sessions that the device would step; includes the one to admit, unless it is of mode cascade.
            now_s: the time by a monotonic clock.
        """
        if not n_others or self._meter.can_serve(n_on_device, self._limits.budget_share, now_s):
            return None
        return Refused("busy", "The server has no time for another caller; try again later.")
