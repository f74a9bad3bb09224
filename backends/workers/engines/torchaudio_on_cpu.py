"""Lets torchaudio be imported beside a CPU build of torch.

The torchaudio that the package index gives is linked against CUDA, and its import ends when its library does not load.
What we use of it is Python; it has a state for "library not there", which this takes up before the first import.
"""

import sys
from types import ModuleType
from typing import Any

import torch


def disable_cuda_library() -> None:
    """Tells torchaudio (2.11) that its compiled library is not there, where torch itself knows no CUDA."""
    if torch.version.cuda is None:
        extension: Any = ModuleType("torchaudio._extension")
        extension._IS_TORCHAUDIO_EXT_AVAILABLE = False
        extension.fail_if_no_align = _make_unavailable
        sys.modules["torchaudio._extension"] = extension


def _make_unavailable(function: Any) -> Any:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"torchaudio's {function.__name__} needs its compiled library")

    return fail
