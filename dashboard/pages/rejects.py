"""Page of a rejected item: stages and reasons, its texts, the attempts, and its audio."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from dashboard.catalog import Dataset, MissingError
from dashboard.index import Index
from dashboard.pages.dialogue import make_sound_response
from dashboard.provenance import RunFile, list_run_files
from dashboard.rejects import RejectedDialogue, read_reject, read_reject_audio
from dashboard.site import Site
from dashboard.timeline import SPEAKERS

_MOST_SHOWN = 50


@dataclass(frozen=True, slots=True)
class ShownReject:
    """A reject with what is left of its dialogue; `has_row`: the dialogue is in the dataset nevertheless."""

    row: dict[str, Any]
    left: RejectedDialogue
    has_row: bool


def create_routes(site: Site) -> APIRouter:
    """Creates the routes of rejects."""
    routes = APIRouter(prefix="/datasets/{key}/refused")

    @routes.get("", response_class=HTMLResponse)
    def show_rejects(request: Request, key: str, item: Annotated[str, Query(max_length=1000)]) -> HTMLResponse:
        """Shows at most 50 rejects of an item, with what is left of its dialogues, and the dialogues made of it."""
        dataset, index = site.open_dataset(key)
        rows = index.fetch_records(
            "SELECT * FROM rejects WHERE item_id = ? ORDER BY stage, reason, dialogue_id LIMIT ?", [item, _MOST_SHOWN]
        )
        if not rows:
            raise MissingError(f"No item {item!r} was rejected.", "The table of rejects shows all of them.")
        made = [
            name
            for (name,) in index.fetch_rows("SELECT dialogue_id FROM dialogues WHERE item_id = ? ORDER BY 1", [item])
        ]
        runs = [each for each in list_run_files(dataset, rows[0]["source"]) if each.content is not None]
        return site.render(
            request,
            "rejects.html",
            dataset=dataset,
            tab="rejects",
            item=item,
            rejects=[_read_shown(dataset, row, made) for row in rows],
            made=made,
            run=runs[0] if runs else RunFile("", None),
            speakers=SPEAKERS,
        )

    @routes.get("/sound")
    def get_sound(
        request: Request,
        key: str,
        dialogue: Annotated[str, Query(max_length=1000)],
        turn: Annotated[int | None, Query(ge=0)] = None,
        utterance: Annotated[int, Query(ge=0)] = 0,
    ) -> Response:
        """Sends the audio of a rejected dialogue, or of one utterance if `turn` is given."""
        dataset, index = site.open_dataset(key)
        place = None if turn is None else (turn, utterance)
        sound = read_reject_audio(dataset, _find_part(index, dialogue), dialogue, place)
        return make_sound_response(sound, request.headers.get("range", ""), {})

    return routes


def _read_shown(dataset: Dataset, row: dict[str, Any], made: list[str]) -> ShownReject:
    """Returns a reject with what is left of its dialogue.

    Args:
        made: ids of the item's dialogues in the dataset.
    """
    left = read_reject(dataset, row["part_id"], row["dialogue_id"], row["stage"])
    return ShownReject(row, left, row["dialogue_id"] in made)


def _find_part(index: Index, dialogue_id: str) -> str | None:
    """Returns the part of a rejected dialogue; None if it is unknown.

    Raises:
        MissingError: there is no such reject.
    """
    found = index.fetch_rows("SELECT part_id FROM rejects WHERE dialogue_id = ? LIMIT 1", [dialogue_id])
    if not found:
        raise MissingError(f"No dialogue {dialogue_id!r} was rejected.", "The table of rejects shows all of them.")
    part_id: str | None = found[0][0]
    return part_id
