"""HTTP beside the sockets: whether the server lives, its figures, a caller's own sessions and recordings."""

from typing import Annotated, Any, Literal, get_args

from fastapi import APIRouter, Depends, Path, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

from data_schemas.config.serving import Mode, ServeConfig
from data_schemas.errors import ConfigError, StoreError
from kame_model.serve.server import Refused
from kame_model.serve.session.session import Session
from kame_model.serve.web.access import Denied
from kame_model.serve.web.caller import Hall
from kame_model.serve.web.disclosure import consent_to
from kame_model.serve.web.session_changes import Changes

SessionId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="As the event `started` says it.")]
_Responses = dict[int | str, dict[str, Any]]


class ErrorDetail(BaseModel):
    """Why something was not done."""

    code: str = Field(description="One word for programs.")
    message: str = Field(description="A sentence for people.")


class ErrorBody(BaseModel):
    """Every answer that is no success."""

    error: ErrorDetail


_MISDIRECTED: _Responses = {421: {"model": ErrorBody}}


class About(BaseModel):
    """What a caller should know before calling."""

    notice: str = Field(description="What every caller is told.")
    modes: list[Mode]
    mode: Mode = Field(description="How a session begins.")
    back_ends: list[str] = Field(description="Names of the chat models, the default first.")
    models: dict[str, list[str]] = Field(description="Models to choose from, by back-end, where it has several.")
    refusal: ErrorDetail | None = Field(description="Why the caller would not be let in now, in the mode asked for.")
    needs_token: bool
    prompts: Literal["open", "locked"] = Field(description="Whether callers may choose a prompt or give instructions.")
    records: bool = Field(description="Whether callers who agree are recorded.")
    record_notice: str = Field(description="What callers are told of recordings before they agree.")
    record_consent: str = Field(description="Who has been told that and agrees says so by `record=` and this word.")
    keep_days: float = Field(description="How long recordings are kept.")
    turn_end_silence_s: float = Field(description="Silence after which the user's turn has ended, seconds.")


class SessionShown(BaseModel):
    """A session that goes on."""

    id: str
    mode: Mode
    back_end: str
    model: str = Field(description="Chosen among the back-end's models; empty: its own.")
    is_recorded: bool
    time_s: float = Field(description="On the session's own clock, seconds.")

    @classmethod
    def of(cls, session: Session) -> "SessionShown":
        """A session as it is now."""
        return cls(
            id=session.id,
            mode=session.mode,
            back_end=session.back_end,
            model=session.model,
            is_recorded=session.is_recorded,
            time_s=session.time_s,
        )


def control_routes(hall: Hall) -> APIRouter:
    """The routes of one server.

    Args:
        hall: knows the server, and who may come in.
    """

    async def check(request: Request) -> None:  # not `def`: a thread would be taken for it
        hall.door.check(request)

    async def check_metrics(request: Request) -> None:
        hall.door.check_metrics(request)

    async def check_host(request: Request) -> None:
        hall.door.check_host(request)

    routes = APIRouter()
    denials: _Responses = {401: {"model": ErrorBody}, 403: {"model": ErrorBody}, 429: {"model": ErrorBody}}
    denials |= _MISDIRECTED
    guarded = APIRouter(dependencies=[Depends(check)], responses=denials)
    measured = APIRouter(dependencies=[Depends(check_metrics)], responses=denials)
    named = APIRouter(dependencies=[Depends(check_host)], responses=_MISDIRECTED)
    _add_health(routes, hall)
    _add_about(named, hall)
    routes.include_router(named)
    _add_metrics(measured, hall)
    routes.include_router(measured)
    _add_sessions(guarded, hall)
    _add_recordings(guarded, hall)
    routes.include_router(guarded)
    return routes


def _add_health(routes: APIRouter, hall: Hall) -> None:
    @routes.get("/healthz", summary="Whether the process answers")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @routes.get(
        "/readyz",
        summary="Whether one more caller is let in, and has its real time",
        response_model=dict[str, str],
        responses={503: {"model": ErrorBody}},
    )
    async def readyz() -> dict[str, str] | Response:
        unreadiness = hall.server.unreadiness()
        if unreadiness is not None:
            return Denied.because(unreadiness).response()  # not raised: who asks is nobody who was denied
        return {"status": "ready"}


def _add_about(routes: APIRouter, hall: Hall) -> None:
    @routes.get("/v1/about", summary="What a caller should know before calling", responses={422: {"model": ErrorBody}})
    async def about(request: Request, mode: Mode | None = None) -> About:
        refusal = hall.server.refusal(hall.door.address_of(request), mode)
        return _about(hall.server.config, hall.door.needs_token, refusal)


def _add_metrics(routes: APIRouter, hall: Hall) -> None:
    @routes.get("/metrics", summary="Figures for Prometheus", response_class=Response)
    async def metrics() -> Response:
        return Response(hall.metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _add_sessions(routes: APIRouter, hall: Hall) -> None:
    unknown: _Responses = {404: {"model": ErrorBody}, 422: {"model": ErrorBody}}

    # No list: whoever knows an id may change its session and delete its recording, and many share an address.
    @routes.get("/v1/sessions/{session_id}", summary="A session of the caller's", responses=unknown)
    async def show(request: Request, session_id: SessionId) -> SessionShown:
        return SessionShown.of(_own(hall, request, session_id))

    @routes.patch(
        "/v1/sessions/{session_id}",
        summary="Change a session while it goes on",
        responses={400: {"model": ErrorBody}, 503: {"model": ErrorBody}, **unknown},
    )
    async def change(request: Request, session_id: SessionId, changes: Changes) -> SessionShown:
        session = _own(hall, request, session_id)
        try:
            hall.changing.apply(changes, session)
        except ConfigError as error:
            raise Denied.because(error) from error
        return SessionShown.of(session)


def _add_recordings(routes: APIRouter, hall: Hall) -> None:
    @routes.delete(
        "/v1/recordings/{session_id}",
        summary="Delete a session's recording, one under way too",
        status_code=204,
        response_class=Response,
        responses={404: {"model": ErrorBody}, 422: {"model": ErrorBody}, 500: {"model": ErrorBody}},
    )
    async def delete(session_id: SessionId) -> Response:
        """Whoever knows the id of a session was its caller: ids cannot be guessed, and addresses change."""
        recordings = hall.server.recordings
        try:
            if recordings is None or not await recordings.delete(session_id):
                raise Denied(404, "unknown_recording", "There is no such recording.")
        except StoreError as error:
            raise Denied(500, "store", "The recording could not be deleted; tell the server's host.") from error
        return Response(status_code=204)


def _own(hall: Hall, request: Request, session_id: str) -> Session:
    session = hall.server.sessions.get(session_id)
    if session is None or session.address != hall.door.address_of(request):
        raise Denied(404, "unknown_session", "There is no such session of yours.")
    return session


def _about(config: ServeConfig, needs_token: bool, refusal: Refused | None) -> About:
    return About(
        notice=config.care.notice,
        modes=list(get_args(Mode)),
        mode=config.mode,
        back_ends=[each.name for each in config.back_ends],
        models={each.name: each.models for each in config.back_ends if each.models},
        refusal=None if refusal is None else ErrorDetail(code=refusal.reason, message=refusal.detail),
        needs_token=needs_token,
        prompts=config.care.prompts,
        records=config.record.folder is not None and config.record.enabled,
        record_notice=config.record.notice,
        record_consent=consent_to(config.record.notice),
        keep_days=config.record.keep_days,
        turn_end_silence_s=config.listener.turn_end_silence_s,
    )
