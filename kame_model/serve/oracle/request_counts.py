"""What became of the requests to chat models, for figures and for the log."""

import logging
from dataclasses import dataclass

from backends.fault_log import FaultLog, fault_of
from data_schemas.config.serving import BackendName
from data_schemas.errors import KameError

_LOG = logging.getLogger(__name__)


@dataclass
class RequestCounts:
    """Of all sessions of a server, those of the cascades too."""

    n_asked: int = 0
    n_answered: int = 0
    n_given_up: int = 0
    n_failed: int = 0

    def __post_init__(self) -> None:
        self._faults = FaultLog(_LOG)  # no field: those are figures

    def failed(self, back_end: BackendName, place: str, error: Exception) -> None:
        """Counts a request that failed, and tells it in the log."""
        self.n_failed += 1
        self.tell(back_end, place, error)

    def tell(self, back_end: BackendName, place: str, error: Exception) -> None:
        """Tells a fault in the log: never the error's text, which may quote the server."""
        fault = "timeout" if isinstance(error, TimeoutError) else fault_of(error)
        remedy = error.remedy if isinstance(error, KameError) else ""
        self._faults.tell(f"Back-end {back_end}".strip(), place, fault, remedy)
