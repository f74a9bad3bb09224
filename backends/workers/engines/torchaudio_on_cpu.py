"""Makes torchaudio importable with a CPU build of torch.

The torchaudio from the package index is linked against CUDA, and importing it fails if its library does not load. We
use only its Python code; it has a state for "library not available", which is set here before the first import.
"""

import sys
from types import ModuleType
from typing import Any

import torch


def disable_cuda_library() -> None:
    """Marks torchaudio's (2.11) compiled library as not available if torch has no CUDA."""
    if torch.version.cuda is None:
        extension: Any = ModuleType("torchaudio._extension")
        extension._IS_TORCHAUDIO_EXT_AVAILABLE = False
        extension.fail_if_no_align = _make_unavailable
        sys.modules["torchaudio._extension"] = extension


def _make_unavailable(function: Any) -> Any:
    """Returns a function that raises RuntimeError, in place of one that needs the compiled library."""

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"torchaudio's {function.__name__} needs its compiled library")

    return fail
