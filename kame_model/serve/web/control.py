"""HTTP endpoints beside the sockets: health, metrics, about, and a caller's own sessions and recordings."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, Field

from data_schemas.config.serving import Mode, Voice
from data_schemas.errors import ConfigError, StoreError
from kame_model.serve.session.session import Session
from kame_model.serve.web.access import Denied, make_consent_word
from kame_model.serve.web.client_websocket import ConnectionManager
from kame_model.serve.web.session_changes import Changes

SessionId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="The id in the event `started`.")]


class ErrorDetail(BaseModel):
    """The reason of an error."""

    code: str = Field(description="One word for programs.")
    message: str = Field(description="A sentence for people.")


class ErrorBody(BaseModel):
    """The body of every error."""

    error: ErrorDetail


class About(BaseModel):
    """What a caller should know before calling."""

    notice: str = Field(description="The notice for every caller.")
    voice: Voice = Field(description="How the front-end is heard: its own audio, or its text by text-to-speech.")
    modes: list[Mode]
    mode: Mode = Field(description="The mode in which a session begins.")
    back_ends: list[str] = Field(description="Names of the chat models, the default first.")
    models: dict[str, list[str]] = Field(description="Models to choose from, by back-end, if it has several.")
    refusal: ErrorDetail | None = Field(description="Why the caller would be refused now, in the requested mode.")
    needs_token: bool
    prompts: Literal["open", "locked"] = Field(description="Whether callers may choose a prompt or give instructions.")
    records: bool = Field(description="Whether callers who agree are recorded.")
    record_notice: str = Field(description="The notice of recordings that callers read before they agree.")
    record_consent: str = Field(description="The value of `record=` for callers who have read the notice and agree.")
    keep_days: float = Field(description="How long recordings are kept.")
    turn_end_silence_s: float = Field(description="Silence after which the user's turn has ended, seconds.")


class SessionShown(BaseModel):
    """An open session."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    mode: Mode
    back_end: str
    model: str = Field(description="The chosen model of the back-end; empty: its default.")
    is_recorded: bool
    time_s: float = Field(description="On the session's own clock, seconds.")


def create_control_routes(manager: ConnectionManager) -> APIRouter:
    """Creates the routes of one server with their checks: none for health, the host name for `/v1/about`, and host
    name, origin and token for metrics, sessions and recordings.
    """
    access = manager.access

    # Dependencies are not `def`: a thread would be taken for each.
    async def check(request: Request) -> None:
        access.check(request)

    async def check_metrics(request: Request) -> None:
        access.check_metrics(request)

    async def check_host(request: Request) -> None:
        access.check_host(request)

    routes = APIRouter()
    _add_health(routes, manager)
    _add_about(routes, manager, Depends(check_host))
    _add_metrics(routes, manager, Depends(check_metrics))
    _add_sessions(routes, manager, Depends(check))
    return routes


def _describe_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns the `responses` of a route that may answer with these HTTP statuses, for its documentation."""
    return {status: {"model": ErrorBody} for status in statuses}


def _add_health(routes: APIRouter, manager: ConnectionManager) -> None:
    """Adds `/healthz`, and `/readyz`, which answers 503 if callers should use another server."""

    @routes.get("/healthz", summary="Whether the process answers")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @routes.get(
        "/readyz",
        summary="Whether one more caller would be admitted and served in real time",
        response_model=dict[str, str],
        responses=_describe_errors(503),
    )
    async def readyz() -> dict[str, str] | Response:
        unreadiness = manager.server.find_unreadiness()
        if unreadiness is not None:
            return Denied.from_error(unreadiness).make_response()  # not raised: a health check is nobody who was denied
        return {"status": "ready"}


def _add_about(routes: APIRouter, manager: ConnectionManager, check: Any) -> None:
    """Adds `/v1/about`, which any caller who passes `check` may read."""

    @routes.get(
        "/v1/about",
        summary="What a caller should know before calling",
        dependencies=[check],
        responses=_describe_errors(421, 422),
    )
    async def about(request: Request, mode: Mode | None = None) -> About:
        config = manager.server.config
        refusal = manager.server.find_refusal(manager.access.find_address(request), mode)
        return About(
            notice=config.care.notice,
            voice=manager.server.voice,
            modes=manager.server.modes,
            mode=config.mode,
            back_ends=[each.name for each in config.back_ends],
            models={each.name: each.models for each in config.back_ends if each.models},
            refusal=None if refusal is None else ErrorDetail(code=refusal.reason, message=refusal.detail),
            needs_token=manager.access.needs_token,
            prompts=config.care.prompts,
            records=config.record.folder is not None and config.record.enabled,
            record_notice=config.record.notice,
            record_consent=make_consent_word(config.record.notice),
            keep_days=config.record.keep_days,
            turn_end_silence_s=config.listener.turn_end_silence_s,
        )


def _add_metrics(routes: APIRouter, manager: ConnectionManager, check: Any) -> None:
    """Adds `/metrics`, for those who pass `check`."""

    @routes.get(
        "/metrics",
        summary="Metrics for Prometheus",
        dependencies=[check],
        response_class=Response,
        responses=_describe_errors(401, 403, 421, 429),
    )
    async def metrics() -> Response:
        return Response(manager.metrics.format_text(), media_type=CONTENT_TYPE_LATEST)


def _add_sessions(routes: APIRouter, manager: ConnectionManager, check: Any) -> None:
    """Adds routes to show and change a session, for callers at its address, and to delete a recording, for whoever
    knows its id.
    """
    guarded = APIRouter(dependencies=[check], responses=_describe_errors(401, 403, 404, 421, 422, 429))

    def find_session(request: Request, session_id: str) -> Session:
        """Returns an open session.

        Raises:
            Denied: 404 if there is none of this id, or it was opened from another address.
        """
        session = manager.server.sessions.get(session_id)
        if session is None or session.address != manager.access.find_address(request):
            raise Denied(404, "unknown_session", "You have no such session.")
        return session

    # No list: whoever knows an id may change its session and delete its recording, and many share an address.
    @guarded.get("/v1/sessions/{session_id}", summary="Show a session of the caller")
    async def show(request: Request, session_id: SessionId) -> SessionShown:
        return SessionShown.model_validate(find_session(request, session_id))

    @guarded.patch("/v1/sessions/{session_id}", summary="Change an open session", responses=_describe_errors(400, 503))
    async def change(request: Request, session_id: SessionId, changes: Changes) -> SessionShown:
        session = find_session(request, session_id)
        try:
            manager.change(session, changes)
        except ConfigError as error:
            raise Denied.from_error(error) from error
        return SessionShown.model_validate(session)

    @guarded.delete(
        "/v1/recordings/{session_id}",
        summary="Delete a session's recording, even one in progress",
        status_code=204,
        response_class=Response,
        responses=_describe_errors(500),
    )
    async def delete(session_id: SessionId) -> Response:
        """Deletes a recording for whoever knows its session's id, which cannot be guessed; addresses change."""
        recordings = manager.server.recordings
        try:
            if recordings is None or not await recordings.delete(session_id):
                raise Denied(404, "unknown_recording", "There is no such recording.")
        except StoreError as error:
            raise Denied(500, "store", "The recording could not be deleted; inform the server's operator.") from error
        return Response(status_code=204)

    routes.include_router(guarded)
