"""Upload of files to a repository of the Hugging Face Hub: only missing files are sent, and the manifest comes last.

Files named by their content are uploaded first, in several commits that readers do not notice. All other files, with
the manifest and the card, are one commit, which also deletes files that are no longer listed. An interrupted upload is
resumed by running it again. Each commit names its parent, so of two concurrent uploads one fails with an error.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from data_schemas import ids
from data_schemas.errors import BackendError, ConfigError, StoreError
from data_schemas.hub import REPOSITORY, TOKEN, connect, translate_hub_errors

if TYPE_CHECKING:
    from huggingface_hub import HfApi

Kind = Literal["dataset", "model"]

FILES_A_COMMIT: Final = 50
_RESUME_HINT = "Run the same command again; files that were uploaded are not sent twice."
_ANOTHER_CAME_FIRST: Final = "412"
_OF_THE_HUB = (".gitattributes",)


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file to upload: its path in the repository, and a local file or bytes.

    `sha256` is its expected checksum; None: not known yet.
    """

    path: str
    content: Path | bytes
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class RepositoryContents:
    """The desired content of a repository.

    Attributes:
        kind: dataset or model repository.
        manifest: path of the file that lists all others; one of `last`.
        files: files named by their content, which can be uploaded before the manifest lists them.
        last: all other files; they are uploaded in one commit.
        owns_path: whether a path can belong to such contents; all other files are never deleted.
    """

    kind: Kind
    manifest: str
    files: Sequence[HubFile]
    last: Sequence[HubFile]
    owns_path: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Published:
    """Result of an upload: URL, commit, and the numbers of files sent, already there, and removed."""

    url: str
    n_sent: int
    n_there: int
    n_removed: int
    commit: str


def publish(
    repository: str,
    contents: RepositoryContents,
    *,
    public: bool = False,
    on_file: Callable[[int], None] = lambda n: None,
) -> Published:
    """Uploads new and changed files to a repository, which is created if necessary, and deletes those no longer listed.

    Args:
        repository: owner/name.
        public: whether a new repository is public; an existing one is not changed.
        on_file: callback for progress, called with the number of files that are there already, and then, after each
            commit, with the number of files it added.

    Raises:
        ConfigError: if the name is not valid, there is no token, or the repository holds other files and not the
            manifest of `contents`.
        BackendError: if the Hub does not answer or refuses, or someone else published at the same time.
        StoreError: if a local file cannot be read, or does not match its checksum in the manifest.
    """
    if not REPOSITORY.fullmatch(repository):
        raise ConfigError(f"{repository} is not a valid name of a repository.", "Write owner/name.")
    api = connect()
    if not api.token:
        raise ConfigError(f"{TOKEN} is not set.", "Set it to a token with write access to the repository.")
    with translate_hub_errors(repository, _RESUME_HINT):
        api.create_repo(repository, repo_type=contents.kind, private=not public, exist_ok=True)
    return _Publication(api, repository, contents, on_file).run()


class _Publication:
    """One upload to a repository, whose files are listed when it is made; that raises the errors of `publish`."""

    def __init__(
        self, api: "HfApi", repository: str, contents: RepositoryContents, on_file: Callable[[int], None]
    ) -> None:
        from huggingface_hub.hf_api import RepoFile

        self._api, self._repository, self._contents, self._on_file = api, repository, contents, on_file
        with translate_hub_errors(repository, _RESUME_HINT):
            self._head = str(api.repo_info(repository, repo_type=contents.kind).sha)
            tree = api.list_repo_tree(repository, recursive=True, revision=self._head, repo_type=contents.kind)
            self._there = {each.path: each for each in tree if isinstance(each, RepoFile)}  # no folders
        foreign = [path for path in self._there if path not in _OF_THE_HUB and not contents.owns_path(path)]
        if foreign and contents.manifest not in self._there:
            raise ConfigError(
                f"{repository} holds other files, such as {foreign[0]}, and no {contents.manifest}.",
                "Choose another repository, or one that does not exist yet.",
            )

    def run(self) -> Published:
        """Commits what is missing of `files`, then what is missing of `last` with the deletions; returns what was done.

        The second commit is skipped if there is nothing to do at all. It raises the errors of `publish`.
        """
        from huggingface_hub import CommitOperationDelete

        files = [each for each in self._contents.files if not self._is_uploaded(each)]
        last = [each for each in self._contents.last if not self._is_uploaded(each)]
        wanted = {each.path for each in (*self._contents.files, *self._contents.last)}
        gone = [path for path in self._there if path not in wanted and self._contents.owns_path(path)]
        n_there = len(wanted) - len(files) - len(last)
        self._on_file(n_there)
        for first in range(0, len(files), FILES_A_COMMIT):
            some = files[first : first + FILES_A_COMMIT]
            self._commit([self._make_addition(each) for each in some], "Add files that the manifest will name")
            self._on_file(len(some))
        if files or last or gone:
            removals = [CommitOperationDelete(path) for path in gone]
            message = f"Publish by kame; {self._contents.manifest} lists the files"
            self._commit([*map(self._make_addition, last), *removals], message)
            self._on_file(len(last))
        return Published(self._make_url(), len(files) + len(last), n_there, len(gone), self._head)

    def _make_url(self) -> str:
        """Returns the web address of the repository."""
        folder = "datasets/" if self._contents.kind == "dataset" else ""
        return f"{self._api.endpoint}/{folder}{self._repository}"

    def _is_uploaded(self, file: HubFile) -> bool:
        """Whether the repository already has this file with the same content.

        A file stored by LFS is compared by its expected checksum, if there is one; then its content is not read.
        """
        there = self._there.get(file.path)
        if there is None:
            return False
        if there.lfs is not None:
            return bool(there.lfs.sha256 == (file.sha256 or _hash_content(file)))
        content = _read_content(file)
        return bool(there.blob_id == hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest())  # noqa: S324

    def _make_addition(self, file: HubFile) -> Any:
        """Returns the commit operation that adds a file, after checking its checksum again.

        Raises:
            StoreError: if the content does not match the checksum.
        """
        from huggingface_hub import CommitOperationAdd

        if file.sha256 is not None and _hash_content(file) != file.sha256:
            raise StoreError(
                f"{file.content!s} has changed since it was written: its checksum differs.",
                "Remove it and run the command that made it again; it makes what is missing.",
            )
        return CommitOperationAdd(file.path, file.content if isinstance(file.content, bytes) else str(file.content))

    def _commit(self, operations: Sequence[Any], message: str) -> None:
        """Creates a commit on top of the last known one.

        Raises:
            BackendError: if the request failed, or was rejected because someone else has committed at the same time.
        """
        try:
            with translate_hub_errors(self._repository, _RESUME_HINT):
                done = self._api.create_commit(
                    self._repository,
                    operations,
                    commit_message=message,
                    repo_type=self._contents.kind,
                    parent_commit=self._head,
                )
        except BackendError as error:
            if error.status != _ANOTHER_CAME_FIRST:
                raise
            raise BackendError(
                f"Someone else changed {self._repository} during the upload; their version was kept.",
                "Check it; run the same command again to replace it with yours.",
                error.status,
            ) from error
        self._head = done.oid


def _hash_content(file: HubFile) -> str:
    """Returns the SHA-256 of the current content in hexadecimal.

    Raises:
        StoreError: if the file cannot be read.
    """
    if isinstance(file.content, bytes):
        return hashlib.sha256(file.content).hexdigest()
    with _translate_read_errors(file.content):
        return ids.compute_sha256(file.content)


def _read_content(file: HubFile) -> bytes:
    """Returns the current content; raises `StoreError` if the file cannot be read."""
    if isinstance(file.content, bytes):
        return file.content
    with _translate_read_errors(file.content):
        return file.content.read_bytes()


@contextmanager
def _translate_read_errors(file: Path) -> Iterator[None]:
    """Converts an `OSError` in the block to a `StoreError` that names the file."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error}.", "Check its permissions and the disk.") from error
