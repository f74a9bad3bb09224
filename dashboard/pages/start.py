"""Pages of forms that start runs, now or on a schedule, with validation while typing."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import HTMLResponse

from dashboard.catalog import MissingError
from dashboard.figures import format_bytes, format_duration, format_number
from dashboard.forms import USUAL, build_form, read_form, split_usual
from dashboard.inputs import find_missing_inputs
from dashboard.runs import KINDS, PLANNED_KINDS, RefusedRunError, Run, RunKind
from dashboard.site import Site
from data_schemas.config import RefreshConfig
from data_schemas.profiles import PROFILES
from data_schemas.rates import PlanFigure

MAX_CHOICES: Final = 500
MAX_TRAININGS: Final = 20


class FormRequest(BaseModel):
    """Request with the values of a form by dotted path; with a cron expression, the run is scheduled.

    `then` is a training run whose settings are used for a training after each refresh that has changed the dataset;
    empty: none.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    values: dict[str, str | bool | list[str]] = Field(max_length=2000)
    cron: str = Field(default="", max_length=200)
    timezone: str = Field(default="UTC", max_length=100)
    then: str = Field(default="", max_length=100)


def create_routes(site: Site) -> APIRouter:
    """Creates the routes of the forms."""
    routes = APIRouter(prefix="/start")

    @routes.get("", response_class=HTMLResponse)
    def choose_kind(request: Request) -> HTMLResponse:
        """Shows the kinds of runs that can be started."""
        site.get_scheduler()  # without a scheduler nothing can be started, and its error says what to do
        return site.render(request, "start_kinds.html", part="runs", kinds=KINDS)

    @routes.get("/{kind}", response_class=HTMLResponse)
    def show_form(
        request: Request, kind: str, like: str = "", profile: str = "", checkpoint: str = "", sample: bool = False
    ) -> HTMLResponse:
        """Shows the form of a kind, with the values of a profile, the samples, a checkpoint, or the run `like`.

        If several are given, the last of these counts. Those that the kind does not have are ignored.
        """
        of = _get_kind(kind)
        if profile and profile not in PROFILES:
            raise MissingError(f"There is no profile {profile!r}.", f"Choose one of: {', '.join(PROFILES)}.")
        values: Mapping[str, Any] = {}
        if profile and kind == "refresh":
            values = PROFILES[profile]().model_dump(mode="json", exclude_defaults=True)
        samples = site.get_scheduler().get_sample_settings() if kind == "refresh" else {}
        if sample:
            values = samples
        if checkpoint and site.checkpoints is not None and "checkpoint" in of.config.model_fields:
            values = {"checkpoint": str(site.checkpoints.open_checkpoint(checkpoint).folder)}
        if like:
            values = site.get_scheduler().read_run(like).settings
        usual, rest = split_usual(build_form(of.config, values), USUAL[kind])
        return site.render(
            request,
            "start.html",
            part="runs",
            kind=of,
            is_planned=kind in PLANNED_KINDS,
            usual=usual,
            rest=rest,
            picks=_list_picks(site),
            profiles=PROFILES if kind == "refresh" else (),
            profile=profile,
            like=like,
            has_samples=bool(samples),
            is_sample=sample,
            trainings=site.get_scheduler().list_runs(["train"], (), 0, MAX_TRAININGS) if kind == "refresh" else (),
        )

    @routes.post("/{kind}/check")
    def check_form(kind: str, form: FormRequest) -> dict[str, Any]:
        """Returns the errors of a form (`faults`), and the inputs that this machine lacks (`missing`), by field."""
        settings, faults = _read_form(site, kind, form)
        known = () if site.scheduler is None else site.scheduler.list_choices().get("sources", ())
        return {"faults": faults, "missing": find_missing_inputs(kind, settings, known)}

    @routes.post("/{kind}/plan")
    def plan_run(kind: str, form: FormRequest) -> dict[str, Any]:
        """Returns the estimate of a run; only the errors of the form if it has some."""
        settings, faults = _read_form(site, kind, form)
        rows = [] if faults else [_format_estimate(each) for each in site.get_scheduler().plan(kind, settings)]
        return {"faults": faults, "figures": rows}

    @routes.post("/{kind}")
    def start_run(kind: str, form: FormRequest) -> dict[str, Any]:
        """Starts a run and returns the URL of its page; with a cron expression, schedules it (URL of the list of runs).

        `then` counts only for a schedule.

        Raises:
            RefusedRunError: the form has errors (the first one is named), or the scheduler rejects the run.
        """
        settings, faults = _read_form(site, kind, form)
        if faults:
            path, text = next(iter(faults.items()))
            raise RefusedRunError(f"{path}: {text}".removeprefix(": "), "Correct the fields that the form marks.")
        if form.cron:
            like = _find_training(site, kind, form.then) if form.then else None
            site.get_scheduler().add_schedule(kind, settings, form.cron.strip(), form.timezone.strip() or "UTC")
            if like is not None:
                dataset = settings.get("out", RefreshConfig.model_fields["out"].default)
                site.get_scheduler().train_after_refresh(dataset, like.settings)
            return {"url": "/runs"}
        return {"url": f"/runs/{site.get_scheduler().start(kind, settings)}"}

    return routes


def _read_form(site: Site, kind: str, form: FormRequest) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the settings of a form, and its errors by path, including what this dashboard does not allow."""
    settings, faults = read_form(_get_kind(kind).config, form.values)
    return settings, site.limits.find_faults(settings) | faults


def _find_training(site: Site, kind: str, run_id: str) -> Run:
    """Returns the training `run_id`, which is to be repeated whenever a refresh has changed its dataset.

    Raises:
        RefusedRunError: the scheduled kind is not a refresh, or the run not a training.
    """
    like = site.get_scheduler().read_run(run_id)
    if kind != "refresh" or like.kind != "train":
        raise RefusedRunError(
            "Only a training can follow a run, and only after a refresh.", "Choose a training from the list."
        )
    return like


def _get_kind(name: str) -> RunKind:
    """Returns the kind of run of a name.

    Raises:
        MissingError: there is none.
    """
    if name not in KINDS:
        raise MissingError(f"There is no kind of run {name!r}.", f"Choose one of: {', '.join(KINDS)}.")
    return KINDS[name]


def _format_estimate(figure: PlanFigure) -> dict[str, str]:
    """Formats a figure of an estimate for the page."""
    return {
        "section": figure.section,
        "title": figure.title,
        "value": _format_value(figure),
        "formula": figure.formula,
        "basis": figure.basis,
    }


def _format_value(figure: PlanFigure) -> str:
    """Formats the value of an estimate's figure with its unit."""
    if figure.value is None:
        return "unknown"
    if figure.unit == "s":
        return format_duration(figure.value)
    if figure.unit == "bytes":
        return format_bytes(round(figure.value))
    if figure.unit == "USD":
        return f"{figure.value:,.2f} USD"
    return f"{format_number(round(figure.value))} {figure.unit}"


def _list_picks(site: Site) -> dict[str, Sequence[str]]:
    """Returns the suggestions for fields, from the scheduler and the roots, by name of the list.

    Lists with suggestions from the roots (datasets, checkpoints, items) have at most `MAX_CHOICES` entries.
    """
    roots = site.catalog.roots
    items = [each for root in roots for depth in ("", "*/") for each in root.glob(f"{depth}*.jsonl")]
    choices = dict(site.get_scheduler().list_choices())
    found = {
        "datasets": [str(each.folder) for each in site.catalog.list_datasets()],
        "checkpoints": [str(folder) for _, folder in site.checkpoints.list_folders()] if site.checkpoints else [],
        "items": [str(each) for each in items if each.name != "flags.jsonl"],
    }
    for name, paths in found.items():
        choices[name] = [*choices.get(name, ()), *sorted(paths)][:MAX_CHOICES]
    return choices
