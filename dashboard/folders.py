"""Finds folders of one kind below the roots: datasets, training runs, checkpoints, evaluations.

A root is such a folder, or is searched two levels deep, and deeper only through `seed-N`, in which `kame train` puts
the results of a seed; hidden folders are skipped. A folder's key is its path below the root, with `~` for `/`: nothing
that a browser sends is used as a path.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from data_schemas import ids
from data_schemas.config.front_end import SEED_PREFIX
from data_schemas.manifest import MANIFEST

_DEPTH, _SEED_DEPTH = 2, 2
_SEED = re.compile(rf"{SEED_PREFIX}\d+")


def find_folders(roots: Sequence[Path], is_wanted: Callable[[Path], bool]) -> Iterator[tuple[str, Path]]:
    """Yields key and path of each folder of a kind, without duplicates.

    If two roots give the same key, a digest of the path is appended to the later ones.

    Args:
        roots: resolved folders.
        is_wanted: whether a folder is of the kind; folders inside such a folder or inside a dataset are not searched.
    """
    taken: set[str] = set()
    found: set[Path] = set()
    for root in roots:
        for folder in _search(root, root, _DEPTH, is_wanted):
            if folder in found:
                continue
            key = "~".join(folder.relative_to(root).parts) or root.name
            if key in taken:
                key = f"{key}~{ids.digest(str(folder), n_hex=6)}"
            taken.add(key)
            found.add(folder)
            yield key, folder


def _search(root: Path, folder: Path, depth: int, is_wanted: Callable[[Path], bool]) -> Iterator[Path]:
    """Yields the wanted folders at or below a folder.

    Links that lead out of the root are not followed, and folders that cannot be read are skipped.

    Args:
        depth: number of levels below the folder that are searched, besides those of `seed-N`.
    """
    if is_wanted(folder):
        yield folder
    elif not (folder / MANIFEST).is_file():
        try:
            inside = sorted(each for each in folder.iterdir() if _is_searched(each, folder, depth))
        except OSError:  # gone, or not readable by this user: nothing in it can be shown
            return
        for each in inside:
            if each.is_dir() and each.resolve().is_relative_to(root):
                yield from _search(root, each.resolve(), depth - 1, is_wanted)


def _is_searched(folder: Path, parent: Path, depth: int) -> bool:
    """Returns whether a folder may be searched, by its name and the remaining depth.

    Hidden folders are never searched, and from depth 0 down only `seed-N` and folders in it, two levels deep.
    """
    name, is_text = folder.name, not any("\ud800" <= each <= "\udfff" for each in folder.name)
    is_of_seed = depth > -_SEED_DEPTH and any(_SEED.fullmatch(each) for each in (name, parent.name))
    return is_text and not name.startswith(".") and (depth > 0 or is_of_seed)
