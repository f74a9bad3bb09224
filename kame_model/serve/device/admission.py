"""Who is let in: as many as the device bears, and of one address no more than its share."""

from collections import Counter, deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NoReturn, Protocol

from data_schemas.config.serving import LimitsConfig
from kame_model.serve.device.frame_meter import FrameMeter

RefusalReason = Literal["full", "busy", "too_slow", "measuring", "too_many_sessions", "too_many_starts", "draining"]
"""full: every slot is taken · busy: the others would lose their real time · too_slow: not even one caller would have
it, which keeps nobody out, and is told to those who ask whether the server is ready · measuring: it is being found out
how many there can be · too_many_sessions, too_many_starts: of this address · draining: the server is about to end."""

_MINUTE_S = 60.0


class Refused(Exception):
    """A caller is not let in.

    Attributes:
        reason: one of `RefusalReason`.
        detail: a sentence for people.
    """

    def __init__(self, reason: RefusalReason, detail: str) -> None:
        super().__init__(detail)
        self.reason: RefusalReason = reason
        self.detail = detail


class OtherCallers(Protocol):
    """Callers of the server's other processes, and how they learn of those of this one."""

    def hold_decision(self) -> AbstractContextManager[None]:
        """For the time of the block no other process lets anybody in."""

    def count_present(self, address: str) -> int:
        """Sessions of an address in the other processes."""

    def count_started(self, address: str, now_s: float) -> int:
        """Sessions that an address began in the other processes within the last minute."""

    def enter(self, address: str, now_s: float) -> None:
        """Tells them of a session that this process has let in."""

    def leave(self, address: str) -> None:
        """Tells them that such a session has ended."""


class NoOthers:
    """The other callers of a server of one process: there are none."""

    def hold_decision(self) -> AbstractContextManager[None]:
        """Nobody else decides."""
        return nullcontext()

    def count_present(self, address: str) -> int:
        """None."""
        return 0

    def count_started(self, address: str, now_s: float) -> int:
        """None."""
        return 0

    def enter(self, address: str, now_s: float) -> None:
        """There is nobody to be told."""

    def leave(self, address: str) -> None:
        """There is nobody to be told."""


class Admission:
    """Says yes or no to each caller.

    Args:
        others: callers of the server's other processes, who count for the limits of an address.

    Attributes:
        n_refused: how often it said no, by reason.
        is_measuring: nobody is let in just now, for seconds: the device's slots are being made anew.
    """

    def __init__(self, limits: LimitsConfig, meter: FrameMeter, others: OtherCallers | None = None) -> None:
        self.n_refused: Counter[RefusalReason] = Counter()
        self._limits, self._meter, self._others = limits, meter, others or NoOthers()
        self._starts: deque[tuple[float, str]] = deque()
        self._is_draining = self.is_measuring = False

    def drain(self) -> None:
        """From now on nobody is let in."""
        self._is_draining = True

    def find_refusal(
        self, address: str | None, present: Sequence[str], n_free: int, n_on_device: int, now_s: float
    ) -> Refused | None:
        """Why a caller would not be let in now; None: it would be. Nothing is counted.

        Args:
            address: the caller's; None: somebody's of whom there is nothing yet.
            present: the address of each session that goes on.
            n_free: slots without a session.
            n_on_device: sessions that the device would step, with this one if it is to; those of mode cascade are none.
            now_s: by a clock that never goes back.
        """
        limits = self._limits
        while self._starts and self._starts[0][0] <= now_s - _MINUTE_S:
            self._starts.popleft()
        n_started, n_present = sum(each == address for _, each in self._starts), present.count(address)
        if address is not None:
            n_started += self._others.count_started(address, now_s)
            n_present += self._others.count_present(address)
        if self._is_draining:
            return Refused("draining", "The server is about to end.")
        if n_present >= limits.max_sessions_per_address:
            most = limits.max_sessions_per_address
            return Refused("too_many_sessions", f"There are {most} sessions from your address already.")
        if n_started >= limits.max_starts_per_minute:
            return Refused("too_many_starts", f"{n_started} sessions were begun from your address in the last minute.")
        if self.is_measuring:
            return Refused("measuring", "The server is finding out how many callers it bears; try again in a moment.")
        if n_free == 0:
            return Refused("full", "Every place is taken; try again later.")
        return self._find_lack_of_time(len(present), n_on_device, now_s)

    def find_unreadiness(self, present: Sequence[str], n_free: int, n_on_device: int, now_s: float) -> Refused | None:
        """Why callers are better sent elsewhere now; None: one more is let in, and has its real time.

        Somebody who would be alone is let in, and hears gaps, where a machine is too slow even for one caller: it may
        be all that he has. The arguments are those of `find_refusal`.
        """
        refusal = self.find_refusal(None, present, n_free, n_on_device, now_s)
        if refusal is None and not present and n_on_device and not self._meter.can_serve_alone(now_s):
            return Refused("too_slow", "This machine is too slow, or too busy, for even one caller's real time.")
        return refusal

    def admit(self, address: str, present: Sequence[str], n_free: int, n_on_device: int, now_s: float) -> None:
        """Lets a caller in, who counts as one of its address's starts; the arguments are those of `find_refusal`.

        Raises:
            Refused: not now.
        """
        with self._others.hold_decision():
            refusal = self.find_refusal(address, present, n_free, n_on_device, now_s)
            if refusal is None:
                self._others.enter(address, now_s)
        if refusal is not None:
            self._refuse(refusal)
        self._starts.append((now_s, address))

    def leave(self, address: str) -> None:
        """Says that a session that was let in has ended, or never began."""
        self._others.leave(address)

    def admit_to_device(self, n_others: int, n_on_device: int, now_s: float) -> None:
        """Lets a session go from mode cascade to one that the device steps.

        Args:
            n_others: sessions beside it.
            n_on_device, now_s: as of `find_refusal`.

        Raises:
            Refused: not now; nothing has changed.
        """
        refusal = self._find_lack_of_time(n_others, n_on_device, now_s)
        if refusal is not None:
            self._refuse(refusal)

    def _refuse(self, refusal: Refused) -> NoReturn:
        self.n_refused[refusal.reason] += 1
        raise refusal

    def _find_lack_of_time(self, n_others: int, n_on_device: int, now_s: float) -> Refused | None:
        """Why the others would not keep their real time; None: they would, as far as is known."""
        if not n_others or self._meter.can_serve(n_on_device, self._limits.budget_share, now_s):
            return None
        return Refused("busy", "The server has just enough time for those who talk now; try again later.")
