"""Worker environments: their requirements, disk space and location on this machine."""

import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from backends import assets
from data_schemas import ids
from data_schemas.errors import BackendError, ConfigError

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
SERVE = Path(__file__).resolve().parent / "serve.py"
ENGINES = Path(__file__).resolve().parent / "engines"
STAMP = "made"
"""File that is written last: an environment without it is incomplete."""


@dataclass(frozen=True, slots=True)
class WorkerEnvironment:
    """A virtual environment with pinned requirements.

    Args:
        lists: files of `requirements/`, installed in order; hashes in them are checked.
        n_mib: disk space that it needs, MiB, with a CPU build of torch if it has one.
        server: the module of the server that runs in it, if no engine file does.
    """

    name: str
    lists: tuple[str, ...]
    n_mib: int
    server: str = ""

    def compute_digest(self) -> str:
        """Computes the digest of its packages for fingerprints; it is the same on every machine.

        Raises:
            BackendError: the requirements are missing (an installed wheel does not contain them).
        """
        try:
            texts = [(REQUIREMENTS / name).read_text(encoding="utf-8") for name in self.lists]
        except OSError as error:
            raise BackendError(
                f"The requirements of the worker environment {self.name} cannot be read: {error}.",
                "Worker environments can only be installed from a checkout of this project.",
            ) from error
        return ids.digest("worker environment", self.name, texts)

    def get_folder(self) -> Path:
        """Returns its folder in the cache, which depends on its packages and on this interpreter; it may not exist.

        Raises:
            BackendError: as `compute_digest`.
        """
        built_for = ids.digest(self.compute_digest(), sys.version, sysconfig.get_platform(), n_hex=8)
        return assets.get_cache_dir() / "workers" / f"{self.name}-{built_for}"

    def get_python(self) -> Path:
        """Returns the path of its interpreter."""
        return self.get_folder() / "bin" / "python"

    def find_engine_file(self) -> Path | None:
        """Returns the file that runs in it behind our pipe, or None for a server with its own command (vllm)."""
        file = ENGINES / f"{self.name}.py"
        return file if file.is_file() else None

    def is_installed(self) -> bool:
        """Returns whether its installation is complete."""
        return all((REQUIREMENTS / name).is_file() for name in self.lists) and (self.get_folder() / STAMP).is_file()


ENVIRONMENTS = (
    WorkerEnvironment("coqui", ("coqui.txt", "torch.txt"), 1900),
    WorkerEnvironment("whisperx", ("whisperx.txt", "torch.txt"), 1400),
    WorkerEnvironment("whisper", ("whisper.txt",), 600),
    WorkerEnvironment("piper", ("piper.txt",), 400),
    WorkerEnvironment("vllm", ("vllm.txt", "torch.txt"), 9000, "vllm.entrypoints.openai.api_server"),
)


def get_environment(name: str) -> WorkerEnvironment:
    """Returns the worker environment of that name.

    Raises:
        ConfigError: there is none.
    """
    for each in ENVIRONMENTS:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in ENVIRONMENTS)
    raise ConfigError(f"There is no worker environment {name!r}.", f"Choose one of: {names}.")
