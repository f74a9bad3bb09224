"""Which worker environments there are, what each holds, and where it lies on this machine."""

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
"""File that is written last: an environment without it is not whole."""


@dataclass(frozen=True, slots=True)
class WorkerEnvironment:
    """A virtual environment of its own, made of pinned lists.

    Args:
        lists: files of `requirements/`, installed in order; those with hashes are checked by them.
        n_mib: disk space that it takes, MiB, with a CPU build of torch where it has one.
        server: the module of a server that it is for, where no engine file runs in it behind our pipe.
    """

    name: str
    lists: tuple[str, ...]
    n_mib: int
    server: str = ""

    def digest(self) -> str:
        """Stands for the packages in it, the same on every machine: it counts in fingerprints.

        Raises:
            BackendError: the lists are not there (an installed wheel does not hold them).
        """
        try:
            texts = [(REQUIREMENTS / name).read_text(encoding="utf-8") for name in self.lists]
        except OSError as error:
            raise BackendError(
                f"The pinned lists of the worker environment {self.name} cannot be read: {error}.",
                "Worker environments are made from a checkout of this project.",
            ) from error
        return ids.digest("worker environment", self.name, texts)

    def folder(self) -> Path:
        """Where it lies, made or not: in the cache folder, one for each list of packages and interpreter."""
        built_for = ids.digest(self.digest(), sys.version, sysconfig.get_platform(), n_hex=8)
        return assets.get_cache_dir() / "workers" / f"{self.name}-{built_for}"

    def python(self) -> Path:
        """Its interpreter."""
        return self.folder() / "bin" / "python"

    def engine_file(self) -> Path | None:
        """The file that runs in it behind our pipe; None for a server that is started by its own command (vllm)."""
        file = ENGINES / f"{self.name}.py"
        return file if file.is_file() else None

    def is_installed(self) -> bool:
        """Whether it has been made to the end."""
        return all((REQUIREMENTS / name).is_file() for name in self.lists) and (self.folder() / STAMP).is_file()


ENVIRONMENTS = (
    WorkerEnvironment("coqui", ("coqui.txt", "torch.txt"), 1900),
    WorkerEnvironment("whisperx", ("whisperx.txt", "torch.txt"), 1400),
    WorkerEnvironment("whisper", ("whisper.txt",), 600),
    WorkerEnvironment("piper", ("piper.txt",), 400),
    WorkerEnvironment("vllm", ("vllm.txt", "torch.txt"), 9000, "vllm.entrypoints.openai.api_server"),
)


def get_environment(name: str) -> WorkerEnvironment:
    """The worker environment of that name.

    Raises:
        ConfigError: there is none.
    """
    for each in ENVIRONMENTS:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in ENVIRONMENTS)
    raise ConfigError(f"There is no worker environment {name!r}.", f"There are: {names}.")
