"""A stand-in of the Hugging Face Hub: what its client asks in order to publish, to fetch and to read in place.

Repositories live in memory, a state a commit. Files over `LFS_BYTES` go by Git LFS, or by Xet into a folder here where
the client uses that (its engine takes a `local://` store). Written after what huggingface_hub 2.4.0 asks.
"""

import base64
import hashlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.support.http_servers import QuietHandler, http_server

TOKEN = "hf_only-for-tests-never-to-be-seen"
LFS_BYTES = 2_000
ATTRIBUTES = b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"


@dataclass
class HubRepository:
    """Commits of one repository: each a name and all files by path, content or (LFS) checksum and size."""

    private: bool
    commits: list[tuple[str, str, dict[str, "bytes | Pointer"]]] = field(default_factory=list)

    @property
    def head(self) -> str:
        return self.commits[-1][0]

    def files(self, revision: str) -> "dict[str, bytes | Pointer] | None":
        """Returns the files of a commit, or of the last one for `main`; None for any other revision."""
        names = {name: files for name, _, files in self.commits} | {"main": self.commits[-1][2]}
        return names.get(revision)

    def commit(self, message: str, files: "dict[str, bytes | Pointer]") -> str:
        """Adds a commit that has these files and no others, and returns its name."""
        name = hashlib.sha1(f"{len(self.commits)} {message} {sorted(files)}".encode()).hexdigest()
        self.commits.append((name, message, files))
        return name


@dataclass(frozen=True)
class Pointer:
    """What a commit has of a file that went by LFS or Xet."""

    sha256: str
    size: int


class HubServer:
    """What the stand-in holds, and what it was asked.

    Attributes:
        uploads: how often each content, by its checksum, was sent by LFS.
        breaks_off: whether it answers with what is no HTTP.
        before: is told of each request before it is answered; where it returns a status, that is the answer.
    """

    def __init__(self, xet_folder: Path | None = None) -> None:
        self.url = ""
        self.repositories: dict[tuple[str, str], HubRepository] = {}
        self.blobs: dict[str, bytes] = {}
        self.uploads: Counter[str] = Counter()
        self.requests: list[str] = []
        self.before: Callable[[str, str], int | None] = lambda method, path: None
        self.xet_folder = xet_folder
        self.breaks_off = False

    def names(self, name: str, kind: str = "dataset") -> set[str]:
        """Paths of the files that are there now."""
        return set(self.repositories[kind, name].commits[-1][2])

    def content(self, name: str, path: str, kind: str = "dataset") -> bytes:
        """A file as it is now."""
        found = self.repositories[kind, name].commits[-1][2][path]
        return self.blobs[found.sha256] if isinstance(found, Pointer) else found


_API = re.compile(r"/api/(dataset|model)s/([^/]+/[^/]+)(?:/(.*))?")
_RESOLVE = re.compile(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
_BATCH = re.compile(r"/(datasets/)?([^/]+/[^/]+)\.git/info/lfs/objects/batch")


def _handler(hub: HubServer) -> type[QuietHandler]:
    """Makes the class that answers the requests to a stand-in."""

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def _arrives(self) -> bool:
            """Records a request, and returns whether it is still to be answered.

            If not, it has been answered: the stand-in breaks off, `before` gave a status, or a change lacks the token.
            """
            self.asked = urlsplit(self.path)
            self.target = unquote(self.asked.path)
            hub.requests.append(f"{self.command} {self.path}")
            if hub.breaks_off:
                self.wfile.write(b"no HTTP\r\n")
                self.close_connection = True
                return False
            status = hub.before(self.command, self.target)
            if status is None and not self.target.startswith("/lfs/") and self.command in ("POST", "PUT"):
                status = None if self.headers.get("Authorization") == f"Bearer {TOKEN}" else 401
            if status is not None:
                self.answer(status, b'{"error": "no"}')
            return status is None

        def answer_json(self, value: Any, status: int = 200, /, **headers: str) -> None:
            self.answer(status, json.dumps(value).encode(), **headers)

        def missing(self, code: str) -> None:
            self.answer(404, b"{}", X_Error_Code=code)

        def got(self) -> None:
            if not self._arrives():
                return
            if found := _RESOLVE.fullmatch(self.target):
                self._resolve("dataset" if found[1] else "model", *found.groups()[1:])
            elif found := _API.fullmatch(self.target):
                self._tell(found[1], found[2], found[3] or "")
            else:
                self.missing("EntryNotFound")

        def put(self, body: bytes) -> None:
            if not self._arrives():
                return
            sha256 = self.target.removeprefix("/lfs/")
            assert hashlib.sha256(body).hexdigest() == sha256
            hub.blobs[sha256] = body
            hub.uploads[sha256] += 1
            self.answer(200, b"")

        def posted(self, body: bytes) -> None:
            if not self._arrives():
                return
            if self.target == "/api/repos/create":
                self._create(json.loads(body))
            elif self.target == "/api/validate-yaml":
                self.answer_json({"errors": [], "warnings": []})
            elif found := _BATCH.fullmatch(self.target):
                self._batch(json.loads(body))
            elif found := _API.fullmatch(self.target):
                self._act(found[1], found[2], found[3] or "", body)
            else:
                self.missing("EntryNotFound")

        def _create(self, told: dict[str, Any]) -> None:
            kind, name = told.get("type", "model"), "/".join(filter(None, (told.get("organization"), told["name"])))
            is_private = bool(told.get("private") or told.get("visibility") == "private")
            if (kind, name) in hub.repositories:
                self.answer_json({"error": "exists", "url": f"{hub.url}/{name}"}, 409)
                return
            hub.repositories[kind, name] = made = HubRepository(is_private)
            made.commit("initial commit", {".gitattributes": ATTRIBUTES})
            self.answer_json({"url": f"{hub.url}/{'datasets/' if kind == 'dataset' else ''}{name}", "name": name})

        def _batch(self, told: dict[str, Any]) -> None:
            objects = []
            for each in told["objects"]:
                upload = {"upload": {"href": f"{hub.url}/lfs/{each['oid']}"}}
                objects.append(each if each["oid"] in hub.blobs else {**each, "actions": upload})
            self.answer_json({"transfer": "basic", "objects": objects})

        def _act(self, kind: str, name: str, what: str, body: bytes) -> None:
            """Answers a POST to a repository: what is to be uploaded how, a commit, or facts of some paths."""
            repository = hub.repositories.get((kind, name))
            if repository is None:
                self.missing("RepoNotFound")
                return
            verb, _, revision = what.partition("/")
            if verb == "preupload":
                files = repository.files("main") or {}
                modes = []
                for each in json.loads(body)["files"]:
                    big = each["size"] > LFS_BYTES or each["path"].endswith(".parquet")
                    there = files.get(each["path"])
                    modes.append(
                        {
                            "path": each["path"],
                            "uploadMode": "lfs" if big else "regular",
                            "shouldIgnore": False,
                            "oid": None if there is None else _oid(there),
                        }
                    )
                self.answer_json({"files": modes})
            elif verb == "commit":
                place = f"{'datasets/' if kind == 'dataset' else ''}{name}"
                self._commit(repository, place, [json.loads(line) for line in body.splitlines()])
            elif verb == "paths-info":
                told = repository.files(revision)
                if told is None:
                    self.missing("RevisionNotFound")
                    return
                asked = json.loads(body)["paths"] if body.startswith(b"{") else parse_qs(body.decode()).get("paths", [])
                found = [_file(path, told[path]) for path in asked if path in told]
                found += [_folder(path) for path in asked if any(each.startswith(f"{path}/") for each in told)]
                self.answer_json(found)
            else:
                self.missing("EntryNotFound")

        def _commit(self, repository: HubRepository, place: str, lines: list[dict[str, Any]]) -> None:
            """Adds a commit; answers 412 if its parent is not the last commit."""
            (header,) = [line["value"] for line in lines if line["key"] == "header"]
            if header.get("parentCommit", repository.head) != repository.head:
                self.answer_json({"error": "A commit has happened since. Please refresh and try again."}, 412)
                return
            files = dict(repository.commits[-1][2])
            for line in lines:
                value = line["value"]
                if line["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    assert value["oid"] in hub.blobs or hub.xet_folder is not None
                    files[value["path"]] = Pointer(value["oid"], value["size"])
                elif line["key"] == "deletedFile":
                    del files[value["path"]]
            oid = repository.commit(header["summary"], files)
            self.answer_json({"commitUrl": f"{hub.url}/{place}/commit/{oid}", "commitOid": oid, "success": True})

        def _tell(self, kind: str, name: str, what: str) -> None:
            """Answers a GET on a repository: access to Xet, a folder's content, or facts of the repository."""
            repository = hub.repositories.get((kind, name))
            if repository is None or (repository.private and self.headers.get("Authorization") != f"Bearer {TOKEN}"):
                self.missing("RepoNotFound")
                return
            verb, _, revision = what.partition("/")
            if verb.startswith("xet-"):
                url, token, ends = f"local://{hub.xet_folder}", "of-the-store", int(time.time()) + 3600
                headers = {"Cas_Url": url, "Access_Token": token, "Token_Expiration": str(ends)}
                told = {"casUrl": url, "accessToken": token, "exp": ends}
                self.answer_json(told, 200, **{f"X_Xet_{name}": value for name, value in headers.items()})
                return
            name_of, _, folder = (revision or "main").partition("/")
            files = repository.files(name_of)
            if files is None:
                self.missing("RevisionNotFound")
            elif verb == "tree":
                below = {path: each for path, each in files.items() if not folder or path.startswith(f"{folder}/")}
                if not below:
                    self.missing("EntryNotFound")
                    return
                self.answer_json(_tree(below, folder, parse_qs(self.asked.query).get("recursive") == ["true"]))
            else:
                sha = repository.head if name_of == "main" else name_of
                siblings = [{"rfilename": path} for path in files]
                self.answer_json(
                    {"id": name, "sha": sha, "siblings": siblings, "private": repository.private, "tags": []}
                )

        def _resolve(self, kind: str, name: str, revision: str, path: str) -> None:
            """Answers a file, or the requested range of it."""
            repository = hub.repositories.get((kind, name))
            if repository is None or (repository.private and self.headers.get("Authorization") != f"Bearer {TOKEN}"):
                self.missing("RepoNotFound")
                return
            files = repository.files(revision)
            if files is None or path not in files:
                self.missing("RevisionNotFound" if files is None else "EntryNotFound")
                return
            found = files[path]
            content = hub.blobs[found.sha256] if isinstance(found, Pointer) else found
            sha = repository.head if revision == "main" else revision
            headers = {"X_Repo_Commit": sha, "ETag": f'"{_oid(found)}"', "Accept_Ranges": "bytes"}
            status = 200
            if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
                first, end = int(asked[1]), int(asked[2] or len(content) - 1)
                headers["Content_Range"] = f"bytes {first}-{min(end, len(content) - 1)}/{len(content)}"
                content, status = content[first : end + 1], 206
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

    return Handler


def _oid(content: bytes | Pointer) -> str:
    """As the Hub calls a content: Git's name of a small file, the checksum of a large one."""
    if isinstance(content, Pointer):
        return content.sha256
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _file(path: str, content: bytes | Pointer) -> dict[str, Any]:
    told: dict[str, Any] = {"type": "file", "path": path, "oid": _oid(content)[:40]}
    if isinstance(content, Pointer):
        return {**told, "size": content.size, "lfs": {"oid": content.sha256, "size": content.size, "pointerSize": 130}}
    return {**told, "size": len(content)}


def _folder(path: str) -> dict[str, Any]:
    return {"type": "directory", "path": path, "oid": "0" * 40, "size": 0}


def _tree(files: dict[str, bytes | Pointer], folder: str, is_recursive: bool) -> list[dict[str, Any]]:
    """Returns what a folder has: its folders first, then its files.

    Args:
        files: files below the folder, by path in the repository.
        is_recursive: whether files of inner folders are returned as well; of folders, only those directly in it are.
    """
    start = len(folder) + 1 if folder else 0
    folders = {path[: path.index("/", start)] for path in files if "/" in path[start:]}
    shown = [_file(path, each) for path, each in files.items() if is_recursive or "/" not in path[start:]]
    return [*map(_folder, sorted(folders)), *shown]


@contextmanager
def hub_server(xet_folder: Path | None = None) -> Iterator[HubServer]:
    """Runs a stand-in during a `with` block, and yields it."""
    hub = HubServer(xet_folder)
    with http_server(_handler(hub)) as hub.url:
        yield hub


def use_hub(hub: HubServer, cache: Path, patch: pytest.MonkeyPatch) -> None:
    """Lets the client of this process ask the stand-in, with the token, and keep what it fetches in `cache`."""
    from huggingface_hub import constants

    from data_schemas import hub as reading

    patch.setattr(constants, "ENDPOINT", hub.url)
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}")
    patch.setattr(constants, "HF_HUB_OFFLINE", False)
    patch.setattr(constants, "HF_HUB_DISABLE_XET", hub.xet_folder is None)
    patch.setattr(constants, "HF_HUB_CACHE", str(cache))
    patch.setenv("HF_TOKEN", TOKEN)
    forget_commits(reading)


def forget_commits(reading: Any) -> None:
    """Forgets the states of repositories, so that they are asked for again as in a new process."""
    reading._find_commit.cache_clear()
    reading._fetch.cache_clear()


def environment(hub: HubServer, cache: Path) -> dict[str, str]:
    """Returns the environment variables of a process that asks the stand-in, without Xet."""
    told = {"HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HF_HUB_OFFLINE": "0", "HF_HOME": str(cache)}
    return {**os.environ, **told, "HF_HUB_DISABLE_XET": "1"}
