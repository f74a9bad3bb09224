"""Files to a repository of the Hugging Face Hub: only what is not there yet is sent, and the manifest comes last.

Files that are named by their content go first, some at a time, each time a commit that no reader notices. The rest,
with the manifest and the card, is one commit, which also removes what no longer belongs. Killed in between, the same
again finds what is there. A commit says which one it follows, so of two publishers one wins and the other is told.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from data_schemas import ids
from data_schemas.errors import BackendError, ConfigError, StoreError
from data_schemas.hub import REPOSITORY, TOKEN, asking_hub, connect

if TYPE_CHECKING:
    from huggingface_hub import HfApi

Kind = Literal["dataset", "model"]

FILES_A_COMMIT: Final = 50
_GOES_ON = "Run the same command again; what is there already is not sent twice."
_ANOTHER_CAME_FIRST: Final = "412"
_OF_THE_HUB = (".gitattributes",)


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file as it is to be in the repository: of a path here, or of its bytes.

    `sha256` is what it must hash to; None: not known yet.
    """

    path: str
    content: Path | bytes
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """What a repository is to hold.

    Attributes:
        kind: of the repository.
        manifest: path of the file without which the rest is nothing; one of `last`.
        files: named by their content, so that they can be there before the manifest tells of them.
        last: all others; they are sent in one commit.
        is_ours: whether a path is one that such an offer may have; others are never touched.
    """

    kind: Kind
    manifest: str
    files: Sequence[HubFile]
    last: Sequence[HubFile]
    is_ours: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Published:
    """What became of an offer: how many files were sent, stood there already, and were removed; and where they are."""

    url: str
    n_sent: int
    n_there: int
    n_removed: int
    commit: str


def publish(
    repository: str, offer: Offer, *, public: bool = False, on_file: Callable[[int], None] = lambda n: None
) -> Published:
    """Makes a repository hold what is offered; where it does not exist yet, it is made.

    Args:
        repository: owner/name.
        public: whether all may see a repository that is made; one that is there stays as it is.
        on_file: is told of so many more files that are there.

    Raises:
        ConfigError: no such name, no token, or the repository holds something else.
        BackendError: the Hub does not answer, refuses, or somebody else published meanwhile.
        StoreError: a file here is not what its manifest says.
    """
    if not REPOSITORY.fullmatch(repository):
        raise ConfigError(f"{repository} is no name of a repository.", "Write owner/name.")
    api = connect()
    if not api.token:
        raise ConfigError(f"{TOKEN} is not set.", "Put a token that may write to the repository into the environment.")
    with asking_hub(repository, _GOES_ON):
        api.create_repo(repository, repo_type=offer.kind, private=not public, exist_ok=True)
    return _Publication(api, repository, offer, on_file).run()


class _Publication:
    """One way from what a repository holds to what it is to hold."""

    def __init__(self, api: "HfApi", repository: str, offer: Offer, on_file: Callable[[int], None]) -> None:
        from huggingface_hub.hf_api import RepoFile

        self._api, self._repository, self._offer, self._on_file = api, repository, offer, on_file
        with asking_hub(repository, _GOES_ON):
            self._head = str(api.repo_info(repository, repo_type=offer.kind).sha)
            tree = api.list_repo_tree(repository, recursive=True, revision=self._head, repo_type=offer.kind)
            self._there = {each.path: each for each in tree if isinstance(each, RepoFile)}  # no folders
        foreign = [path for path in self._there if path not in _OF_THE_HUB and not offer.is_ours(path)]
        if foreign and offer.manifest not in self._there:
            raise ConfigError(
                f"{repository} holds something else, such as {foreign[0]}, and no {offer.manifest}.",
                "Name another repository, or one that does not exist yet.",
            )

    def run(self) -> Published:
        from huggingface_hub import CommitOperationDelete

        files = [each for each in self._offer.files if not self._stands(each)]
        last = [each for each in self._offer.last if not self._stands(each)]
        wanted = {each.path for each in (*self._offer.files, *self._offer.last)}
        gone = [path for path in self._there if path not in wanted and self._offer.is_ours(path)]
        n_there = len(wanted) - len(files) - len(last)
        self._on_file(n_there)
        for first in range(0, len(files), FILES_A_COMMIT):
            some = files[first : first + FILES_A_COMMIT]
            self._commit([self._addition(each) for each in some], "Add files that the manifest will name")
            self._on_file(len(some))
        if files or last or gone:
            removals = [CommitOperationDelete(path) for path in gone]
            message = f"Publish by kame; {self._offer.manifest} tells what is here"
            self._commit([*map(self._addition, last), *removals], message)
            self._on_file(len(last))
        return Published(self._url(), len(files) + len(last), n_there, len(gone), self._head)

    def _url(self) -> str:
        folder = "datasets/" if self._offer.kind == "dataset" else ""
        return f"{self._api.endpoint}/{folder}{self._repository}"

    def _stands(self, file: HubFile) -> bool:
        """Whether the repository has just this content under that name."""
        there = self._there.get(file.path)
        if there is None:
            return False
        if there.lfs is not None:
            return bool(there.lfs.sha256 == (file.sha256 or _sha256_of(file)))
        content = _content_of(file)
        return bool(there.blob_id == hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest())  # noqa: S324

    def _addition(self, file: HubFile) -> Any:
        """What the Hub's client sends of a file, which is looked at once more.

        Raises:
            StoreError: it has another content than its manifest says.
        """
        from huggingface_hub import CommitOperationAdd

        if file.sha256 is not None and _sha256_of(file) != file.sha256:
            raise StoreError(
                f"{file.content!s} is not what was written: its checksum differs.",
                "Run the command that made it again; it makes what is missing.",
            )
        return CommitOperationAdd(file.path, file.content if isinstance(file.content, bytes) else str(file.content))

    def _commit(self, operations: Sequence[Any], message: str) -> None:
        """One commit on top of the last that we know of.

        Raises:
            BackendError: it was not taken; the repository is as it was.
        """
        try:
            with asking_hub(self._repository, _GOES_ON):
                done = self._api.create_commit(
                    self._repository,
                    operations,
                    commit_message=message,
                    repo_type=self._offer.kind,
                    parent_commit=self._head,
                )
        except BackendError as error:
            if error.status != _ANOTHER_CAME_FIRST:
                raise
            raise BackendError(
                f"Somebody else has changed {self._repository} meanwhile; their state stands.",
                "Look at it; the same command again puts yours in its place.",
                error.status,
            ) from error
        self._head = done.oid


def _sha256_of(file: HubFile) -> str:
    """Of its content as it is now.

    Raises:
        StoreError: it cannot be read.
    """
    if isinstance(file.content, bytes):
        return hashlib.sha256(file.content).hexdigest()
    try:
        return ids.sha256_of(file.content)
    except OSError as error:
        raise StoreError(f"{file.content} cannot be read: {error}.", "Look at its rights and disk.") from error


def _content_of(file: HubFile) -> bytes:
    return file.content if isinstance(file.content, bytes) else file.content.read_bytes()
