"""Runs evaluations that call a server: makes and stores each missing call, then judges what is not judged yet.

An evaluation defines what is asked, how a call is made, and how its record becomes lines of items.jsonl (`Item`);
`run_calls` does the rest. Calls are stored in their own folder, separate from judgements, so that another judge can
reuse them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from backends.asr.protocol import HearingRefused, Recogniser
from backends.chat.providers import get_price
from backends.engine import Samples
from data_schemas.config.calls import CallsConfig
from data_schemas.config.serving import NO_CHECKPOINT, Mode, ServeConfig
from data_schemas.units import SAMPLE_RATE_HZ
from kame_model.checkpoint.files import digest_files
from kame_model.checkpoint.folder import Contents, locate_checkpoint, read_contents
from kame_model.checkpoint.kame_json import choose_guesses, choose_sampling, choose_voice
from kame_model.checkpoint.load import load_checkpoint
from kame_model.evaluate.calls.call import Call, CalledServer
from kame_model.evaluate.calls.measured import (
    MeasuredTimes,
    add_up_steps,
    find_model_digest,
    get_endpoint,
    summarise_steps,
)
from kame_model.evaluate.judge import Judge, Judgement, JudgeRequest, describe_reply, open_judge, sum_costs
from kame_model.evaluate.report.folder import EvaluationFolder, write_sound
from kame_model.serve.parts import ServerParts
from kame_model.train.parallel import find_device

Counting = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Progress: takes a description and a total; the context gives a function that advances the count."""

Record = Mapping[str, Any]
"""A row of figures, or the record of an item (`report.folder`)."""

CALLS: Final = "calls"
_Asked = TypeVar("_Asked")

_OF_NO_ANSWER: Final = ("host", "port", "limits", "care", "record", "mode", "device", "checkpoint")
"""Fields of a server's configuration that do not affect its answers in a given mode."""


class CallCondition(NamedTuple):
    """A mode of the server, and the forced delay of its chat model, seconds; None: the measured time."""

    mode: Mode
    delay_s: float | None

    @property
    def name(self) -> str:
        """The condition in the names of items and files, for example `tandem-0.5s`."""
        return self.mode if self.delay_s is None else f"{self.mode}-{self.delay_s:g}s"

    @property
    def title(self) -> str:
        """Title for readers, for example `tandem, back-end after 0.5 s`."""
        return self.mode if self.delay_s is None else f"{self.mode}, back-end after {self.delay_s:g} s"


def list_conditions(config: CallsConfig) -> list[CallCondition]:
    """Lists each mode with each delay; without configured delays, with the measured one (None).

    Mode direct uses no chat model, and has no delay.
    """
    delays_s: list[float | None] = [*dict.fromkeys(config.delays_s)] or [None]
    modes = dict.fromkeys(config.modes)
    return [CallCondition(mode, delay_s) for mode in modes for delay_s in ([None] if mode == "direct" else delays_s)]


def get_condition(row: Record) -> CallCondition:
    """Returns the condition of a row of figures or of the `row` of an item."""
    return CallCondition(row["mode"], row["delay_s"])


def make_rows(records: Sequence[Record], compute_figures: Callable[[Sequence[Record]], Record]) -> list[dict[str, Any]]:
    """Makes rows of figures: one for each condition and, if its items have categories, one for each category of it.

    Args:
        records: records of items.
        compute_figures: computes the figures of a row from its records.
    """
    rows = []
    for condition in dict.fromkeys(get_condition(each["row"]) for each in records):
        own = [each for each in records if get_condition(each["row"]) == condition]
        rows.append({**condition._asdict(), **compute_figures(own)})
        for category in sorted({each["row"].get("category", "") for each in own} - {""}):
            of_category = [each for each in own if each["row"].get("category") == category]
            rows.append({**condition._asdict(), "category": category, **compute_figures(of_category)})
    return rows


class Item(NamedTuple):
    """A line of items.jsonl, before it is judged.

    Attributes:
        record: the record to store (`report.folder`).
        judged: by measure, the judge's request, or a judgement that needs no request.
        suffix: appended to the name of its call to make the item's name.
    """

    record: dict[str, Any]
    judged: Mapping[str, JudgeRequest | Judgement] = {}
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run whose calls are all made and judged.

    Attributes:
        folder: the folder of the results.
        called: the record of each call, by name.
        records: the records of all items.
        times: durations of requests, recognitions and syntheses.
        costs: see `_add_up_costs`; and `steps`, for each mode (`add_up_steps`).
        looks_at_test: number of evaluations of these weights on test items; None: the items are not test items.
    """

    folder: EvaluationFolder
    called: Mapping[str, Record]
    records: Sequence[Record]
    times: MeasuredTimes
    costs: dict[str, Any]
    looks_at_test: int | None


def run_calls(
    config: CallsConfig,
    out: str,
    run: Record,
    asked: Mapping[str, _Asked],
    call: Callable[[CalledServer, CallCondition, _Asked], tuple[dict[str, Any], Call | None]],
    make_items: Callable[[CallCondition, _Asked, dict[str, Any]], Iterable[Item]],
    *,
    parts: ServerParts | None,
    counting: Counting,
    sounds: Collection[str] | None = None,
    calls_folder: str = CALLS,
    anew: bool = False,
    scoring: int | None = None,
    record_use: Callable[[], int | None] = lambda: None,
) -> FinishedRun:
    """Makes missing calls, and judges items that have no judgement or whose judgement failed.

    Calls, their audio and the items are stored in `out`; the caller writes the report. The judge is opened before the
    calls, so that an unavailable judge is an error at the start.

    Args:
        out: the evaluation's folder. Running again with the same folder resumes.
        run: everything that affects the result of a call (`describe_run` and fields of the kind).
        asked: what is played in each condition, by name.
        call: makes a call; returns its record, and the call, or None if there was none.
        make_items: makes items from the record of a call.
        parts: the server's parts, used instead of those that `config.serving` names.
        counting: shows progress.
        sounds: names of the calls whose audio is stored; None: the first ones (`config.n_sounds`).
        calls_folder: folder of the calls' records, inside `out`.
        anew: replace the items of another evaluation in `out`.
        scoring: version of the rules that affect items but not calls; if that in `out` is another, the items are made
            again from the stored calls. None: there is none.
        record_use: records an evaluation on test items, when everything for the calls is ready
            (`report.held_out.record_test_evaluation`).

    Raises:
        ConfigError: the configuration names something that does not exist, or `out` holds another evaluation.
        BackendError, BudgetError: a chat model or the judge is unavailable, rejects the key, or its budget is spent.
        StoreError: a file cannot be read or written.
    """
    kept_as_sound = list(asked)[: config.n_sounds] if sounds is None else sounds
    wanted = [(f"{condition.name}/{name}", condition, name) for name in asked for condition in list_conditions(config)]
    times, calls = MeasuredTimes(out), EvaluationFolder(str(Path(out) / calls_folder), run, anew=anew)
    with nullcontext(None) if config.judge is None else open_judge(config.judge, out) as judge:
        judged_by = None if judge is None else judge.describe()
        of_items = {"judge": judged_by} | ({} if scoring is None else {"scoring": scoring})  # made again if another
        folder = EvaluationFolder(out, {**run, **of_items}, anew=anew, replaceable=of_items if len(calls) else ())
        n_test_evaluations = record_use()
        missing = [each for each in wanted if each[0] not in calls]
        if missing:
            with _make_server(config, parts, times) as server, counting("calling", len(missing)) as advance:
                for place, condition, name in missing:
                    record, made = call(server, condition, asked[name])
                    if made is not None and name in kept_as_sound:
                        write_sound(out, place, made.assistant, made.user)
                    if made is not None and made.steps_s:
                        times.keep(f"steps/{place}", summarise_steps(made.step_s, made.steps_s))
                    calls.keep(place, record)
                    advance(1)
        called = {place: calls[place] for place, *_ in wanted}
        items = {
            f"{place}{item.suffix}": item
            for place, condition, name in wanted
            for item in make_items(condition, asked[name], called[place])
        }
        _judge_items(items, folder, judge, counting)
    records = [folder[name] for name in items]
    folder.machine = calls.machine
    steps = [(condition.mode, times.find(f"steps/{place}")) for place, condition, _ in wanted]
    costs = {**_add_up_costs(config, times, records), "steps": add_up_steps(steps)}
    return FinishedRun(folder, called, records, times, costs, n_test_evaluations)


def _judge_items(items: Mapping[str, Item], folder: EvaluationFolder, judge: Judge | None, counting: Counting) -> None:
    """Judges (if there is a judge) and stores the items that are not stored yet or whose judgement failed.

    They are stored after the last judgement, and not if the judge raises an error; its replies until then are cached.
    """
    new = [name for name in items if name not in folder or "failed" in folder[name]["faults"].values()]
    judged: dict[str, dict[str, Judgement]] = {name: {} for name in new}
    if judge is not None:
        known = {(name, measure): one for name in new for measure, one in items[name].judged.items()}
        asked = {key: request for key, request in known.items() if isinstance(request, JudgeRequest)}
        judgements: dict[tuple[str, str], Judgement] = {}
        if asked:
            with counting("judging", len(asked)) as advance:
                judgements = dict(zip(asked, judge.judge(list(asked.values()), lambda: advance(1)), strict=True))
        for (name, measure), one in known.items():
            judged[name][measure] = judgements[name, measure] if isinstance(one, JudgeRequest) else one
    for name in new:
        record, own = items[name].record, judged[name].items()
        measures = {**record["measures"], **{measure: one.value for measure, one in own}}
        faults = {measure: one.fault for measure, one in own if one.fault}
        replies = {measure: describe_reply(one.reply) for measure, one in own if one.reply is not None}
        folder.keep(name, {**record, "measures": measures, "faults": faults, "judged": replies})


def _make_server(config: CallsConfig, parts: ServerParts | None, times: MeasuredTimes) -> CalledServer:
    """Makes the server to call, which is not started yet, and loads its checkpoint; mode cascade needs none."""
    serving, checkpoint = config.serving, None
    if {*config.modes} != {"cascade"}:
        checkpoint = load_checkpoint(serving.checkpoint, find_device(serving.device))
    mode: Mode = "cascade" if "cascade" in config.modes else config.modes[0]  # whose parts are required
    return CalledServer(checkpoint, serving.model_copy(update={"mode": mode}), parts, times)


def describe_run(kind: str, version: int, config: CallsConfig, recogniser: Recogniser) -> dict[str, Any]:
    """Returns the fields of `run` that all these evaluations have (`report.folder`).

    Raises:
        ConfigError: the checkpoint or the chat engine does not exist.
        BackendError, StoreError: the checkpoint cannot be downloaded or read.
    """
    return {
        "kind": kind,
        "version": version,
        "seed": config.seed,
        "system": _describe_system(config.serving),
        "recogniser": {"engine": recogniser.name, "digest": recogniser.digest},
    }


def _describe_system(serving: ServeConfig) -> dict[str, Any]:
    """Returns the field `system` of `run`: weights, back-ends and settings, with defaults from the checkpoint.

    `model_digests` has the digest of the model's files for each back-end where it is known: another file may have the
    same path.
    """
    name, digest = "cascade", None
    contents = find_contents(serving.checkpoint)
    if contents is not None:
        name, digest = Path(serving.checkpoint).name, digest_files([contents.weights])
        sampling, voice = choose_sampling(contents.facts, serving.sampling), choose_voice(contents.facts, serving.voice)
        guesses = choose_guesses(contents.facts, serving.cycle.guesses)
        cycle = serving.cycle.model_copy(update={"guesses": guesses})
        serving = serving.model_copy(update={"sampling": sampling, "voice": voice, "cycle": cycle})
    endpoint = get_endpoint(serving.back_ends[0].chat)
    digests = {each.name: found for each in serving.back_ends if (found := find_model_digest(each.chat))}
    return {
        "name": name,
        "checkpoint": digest,
        "back_end": endpoint.model,
        "endpoint": endpoint.name,
        "model_digests": digests,
        "serving": serving.model_dump(mode="json", exclude={*_OF_NO_ANSWER}),
    }


def find_contents(checkpoint: str) -> Contents | None:
    """Returns the contents of the checkpoint of a server's configuration; None: it serves without one.

    Raises:
        ConfigError: it does not exist.
        BackendError, StoreError: it cannot be downloaded or read.
    """
    return None if checkpoint == NO_CHECKPOINT else read_contents(locate_checkpoint(checkpoint))


def transcribe(sound: Samples, recogniser: Recogniser) -> str | None:
    """Transcribes a sound at 24 kHz; None if the recogniser rejects it."""
    try:
        return recogniser.transcribe(sound, SAMPLE_RATE_HZ).strip()
    except HearingRefused:
        return None


def _add_up_costs(config: CallsConfig, times: MeasuredTimes, records: Sequence[Record]) -> dict[str, Any]:
    """Returns the token usage and costs (`judge.sum_costs`) of `back_ends`, by name, and of `judge`, None without one.

    Each request counts once, in whatever run it was made.
    """
    requests = times.list_records("request")
    back_ends = {
        each.name: sum_costs(
            [request["usage"] for request in requests if request["back_end"] == each.name],
            get_price(each.chat, get_endpoint(each.chat).model),
        )
        for each in config.serving.back_ends
    }
    if config.judge is None:
        return {"back_ends": back_ends, "judge": None}
    price = get_price(config.judge.chat, get_endpoint(config.judge.chat).model)
    return {
        "back_ends": back_ends,
        "judge": sum_costs([reply for each in records for reply in each["judged"].values()], price),
    }


@contextmanager
def show_no_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Context manager that shows no progress; a `Counting` whose function does nothing."""
    yield lambda n: None
