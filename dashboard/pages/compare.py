"""Page that compares two versions of a dataset. The URL holds both, what is shown, and the page number."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import HTMLResponse

from dashboard.catalog import Dataset
from dashboard.figures import read_totals
from dashboard.site import Site
from dashboard.versions import KINDS, ONLY, PAGE_DIALOGUES, SIDES, compare_ladders, compare_totals, open_versions
from data_schemas.errors import ConfigError

_GROUPED = {
    "source": "Sources",
    "form": "Forms",
    "split": "Splits",
    "voice_b": "Voices of B",
    "tts": "Text-to-speech",
    "asr": "Recogniser",
    "aligner": "Aligner",
}
_TITLES = {"any": "anything", "spoken": "spoken text", "sound": "voices or length"} | ONLY


def create_routes(site: Site) -> APIRouter:
    """Creates the routes of the comparison."""
    routes = APIRouter()

    @routes.get("/compare", response_class=HTMLResponse)
    def compare_versions(
        request: Request,
        left: str = "",
        right: str = "",
        show: str = "any",
        page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    ) -> HTMLResponse:
        """Shows what differs between two versions of a dataset, with a page of the dialogues that differ by `show`.

        If one of them is not named, it shows only the form, with a suggestion.
        """
        if show not in KINDS:
            raise ConfigError(f"Dialogues cannot be compared by {show!r}.", f"Choose one of: {', '.join(KINDS)}.")
        datasets = [each for each in site.catalog.list_datasets() if isinstance(each, Dataset)]
        compared = _compare(site, left, right, show, page) if left and right else None
        others = [each.key for each in datasets if each.key not in (left, right)]
        left, right = left or next(iter(others), ""), right or next(iter(others[not left :]), "")
        shown = {"datasets": datasets, "left": left, "right": right, "show": show, "page": page}
        return site.render(request, "compare.html", **shown, compared=compared)

    return routes


def _compare(site: Site, left: str, right: str, show: str, page: int) -> dict[str, Any]:
    """Returns the content of the page: figures, counts, and a page of the dialogues that differ by `show`."""
    (one, one_index), (two, two_index) = site.open_dataset(left), site.open_dataset(right)
    left_totals = read_totals(one_index, one.manifest.oracle_version)
    right_totals = read_totals(two_index, two.manifest.oracle_version)
    left_bytes, right_bytes = (sum(shard.n_bytes for shard in each.manifest.shards) for each in (one, two))
    with open_versions(one_index, two_index, (one.manifest.oracle_version, two.manifest.oracle_version)) as versions:
        counts = versions.count()
        return {
            "datasets": dict(zip(SIDES, (one, two), strict=True)),
            "is_same": one.manifest.fingerprint == two.manifest.fingerprint,
            "figures": compare_totals(left_totals, right_totals, (left_bytes, right_bytes)),
            "ladder": compare_ladders(left_totals, right_totals),
            "groups": {title: versions.count_groups(column) for column, title in _GROUPED.items()},
            "rejects": versions.count_rejects(),
            "n_both": counts["both"],
            "kinds": [(name, _TITLES.get(name, name), counts[name]) for name in KINDS],
            "dialogues": versions.read_page(show, page),
            "n_pages": max(1, -(-counts[show] // PAGE_DIALOGUES)),
        }
