"""`kame bench`: measures what each stage of a run costs on this machine, on a few real dialogues, in about two minutes.

The stages and engines are those of a run, in this process, one dialogue after the other. Each stage first processes one
dialogue, so that the loading of models is measured separately. Then the processor time of all of them (with a chat
model: of the others) is measured, including child processes; a busy machine affects it less than wall-clock time.
"""

import os
import platform
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

from backends.chat.answers import estimate_tokens
from backends.chat.budget import ChatUsage, set_run_id
from backends.engine import Samples
from data_schemas.config import RefreshConfig, SourceConfig
from data_schemas.errors import BackendError, SourceError
from data_schemas.rates import CPU, ChatRate, DialogueShape, EngineSizes, PromptSize, Rates, RatesOrigin, StepCost
from data_schemas.records import AudioDialogue, Dialogue, DialogueClips, Item, OracleRow
from data_schemas.store import Store
from data_schemas.units import SAMPLE_RATE_HZ, samples_to_seconds
from flows.runs.plan import name_device
from flows.runs.usage import UsageMeter, read_usage
from pipelines.asking import run_alone
from pipelines.audio import decode_flac
from pipelines.oracle.plan import plan_dialogue
from pipelines.oracle.prompts import list_prompt_sets, load_prompts, make_payload
from pipelines.run.estimate import describe_engines, get_prompt_version, get_speech_engine
from pipelines.run.execute import join_inputs, open_client
from pipelines.run.plan import make_plan
from pipelines.run.stages import (
    CHAT_STAGES,
    MIXING,
    NOBODY,
    ORACLE,
    SCRIPT,
    build_chat_engine,
    build_chat_stage,
    build_cpu_stages,
    build_recogniser,
    build_stage_without_chat,
    describe_stages,
    get_chat_model,
)
from pipelines.sources.items import read_items
from pipelines.speech.gate import pad_with_silence
from pipelines.stage import Stage

N_READ = 200
"""Number of items of a source whose scripts are measured; scripts are cheap, and dialogues differ much."""

N_PUBLISHED = 20
"""Number of times that the rows are published: a single one takes less than the clock's resolution of 10 ms."""

Tell = Callable[[str], None]


@dataclass(slots=True)
class Bench:
    """The measurements, step by step.

    Attributes:
        oracles: oracles of the dialogues, for the steps that follow.
        main_bytes: memory of a run's main process.
        chat_bytes: most memory that a chat server took.
    """

    config: RefreshConfig
    n_dialogues: int
    meter: UsageMeter
    costs: list[StepCost] = field(default_factory=list)
    shapes: list[DialogueShape] = field(default_factory=list)
    chat: list[ChatRate] = field(default_factory=list)
    dialogues: list[AudioDialogue] = field(default_factory=list)
    oracles: list[OracleRow] = field(default_factory=list)
    sizes: list[EngineSizes] = field(default_factory=list)
    main_bytes: int = 0
    chat_bytes: int = 0

    def add_cost(self, step: str, engine: str, per: str, processor_s: float, amount: float) -> None:
        """Adds the cost of a step: `processor_s` divided by `amount`, in units of `per`; nothing if `amount` is 0."""
        if amount > 0:
            self.costs.append(StepCost(step=step, engine=engine, per=per, seconds=max(0.0, processor_s) / amount))


def run_bench(
    config: RefreshConfig,
    n_dialogues: int,
    checkpoint: str | None,
    tell: Tell,
    keeps_shapes: bool = True,
    devices: Sequence[str] = (CPU,),
) -> Rates:
    """Measures what the steps of a refresh cost here, and with a checkpoint those of training and serving.

    Returns the rates, which `flows.runs.plan.save_rates` stores.

    Args:
        n_dialogues: number of dialogues of each source to synthesise.
        checkpoint: a trained front-end whose codec, training and server steps are measured; if None, these are skipped.
        tell: called with the name of each step before it is measured.
        keeps_shapes: whether lengths of the dialogues are stored for sources of the same names.
        devices: those on which the codec, training and server steps are measured: cpu, cuda or auto.

    Raises:
        ConfigError: a device does not exist.
        KameError: as in a run.
    """
    others = [each for each in devices if each != CPU and checkpoint is not None]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        list(alone.map(name_device, others))  # an error now, and not after minutes; torch is not loaded here
    origin = RatesOrigin(day=f"{datetime.now(UTC):%Y-%m-%d}", machine=describe_machine())
    with UsageMeter() as meter:
        bench = measure_dataset(config, n_dialogues, meter, tell)
    more = []
    if checkpoint is not None:
        from flows.runs.bench_training import measure_training

        for device in devices:
            tell(f"codec, training and a server's step on {device}")
            more.append(measure_training(checkpoint, bench.dialogues, bench.oracles, origin, device))
    return Rates(
        origin=origin,
        shapes=bench.shapes if keeps_shapes else [],
        costs=[*bench.costs, *(cost for each in more for cost in each.costs)],
        chat=bench.chat,
        prompts=_measure_prompt_sizes(bench),
        steps=[row for each in more for row in each.steps],
        sizes=bench.sizes,
        training_bytes=next((each.training_bytes for each in more if each.training_bytes is not None), None),
        mfu=[row for each in more for row in each.mfu],
    )


def measure_dataset(config: RefreshConfig, n_dialogues: int, meter: UsageMeter, tell: Tell) -> Bench:
    """Makes dialogues of each source in a temporary folder, and returns the measurements of each step.

    Pictures are skipped, and so are oracles if no chat model writes them.

    Args:
        tell: called with the name of each step before it is measured.

    Raises:
        SourceError: no item of a source can be spoken, or all dialogues of a source are rejected.
        KameError: as in a run.
    """
    bench = Bench(config, n_dialogues, meter)
    load_s = 0.0
    with tempfile.TemporaryDirectory() as folder, set_run_id(f"bench-{uuid.uuid4().hex[:12]}"):
        tell("planning")
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            bench.main_bytes = alone.submit(measure_planning, config, f"{folder}/plan").result()
        stages = build_cpu_stages(config)
        tell("scripts")
        scripted = _measure_scripts(bench, stages[SCRIPT])
        made: dict[str, list[Any]] = {SCRIPT: [each for group in scripted.values() for each in group]}
        for name, stage in describe_stages(config).items():
            if name not in (SCRIPT, "pictures", ORACLE):
                tell(name)
                batch = join_inputs([made[each] for each in stage.inputs])
                if name in CHAT_STAGES:
                    if get_chat_model(config, name) is None:
                        made[name] = build_stage_without_chat(config, name).run(batch).outputs
                    else:
                        made[name] = _measure_chat(bench, name, batch, f"{folder}/answers.sqlite")
                    continue
                made[name], warm_s, processor_s = _run_warm(stages[name], batch)
                load_s += warm_s
                _add_stage_cost(bench, name, made, processor_s)
        bench.dialogues = made[MIXING]
        if not bench.dialogues:
            raise SourceError("All dialogues of the benchmark were rejected.", "Try more dialogues: --dialogues 16")
        memory = meter.measure()
        bench.add_cost("start", describe_engines(config), "worker", load_s, 1)
        if get_chat_model(config, ORACLE) is not None:
            tell("oracles")
            batch = [(each,) for each in bench.dialogues]
            bench.oracles = _measure_chat(bench, ORACLE, batch, f"{folder}/answers.sqlite")
            if not any(each.stage == ORACLE for each in bench.chat):
                raise BackendError(
                    "The chat model returned no answer with a token count.",
                    "See the output of its server; every answer must contain `usage`.",
                )
        tell("publishing")
        _measure_sizes(bench, made["speech"], Path(folder), memory.own_bytes + memory.others_bytes)
    _complete_shapes(bench, scripted, made["speech"])
    return bench


def measure_planning(config: RefreshConfig, out: str) -> int:
    """Plans a run in the folder `out`, and returns the resident memory of this process in bytes.

    At most `N_READ` rows of each source are planned. It is called in a new process, whose memory holds nothing else.
    """
    import datasets  # noqa: F401 - imported by a run's main process to publish

    import flows.runs.refresh  # noqa: F401 - and all of this from its start

    limit = min(config.limit or N_READ, N_READ)
    make_plan(config.model_copy(update={"out": out, "limit": limit, "evaluation_sets": []}))
    return read_usage().own_bytes


def describe_machine() -> str:
    """Returns a description of this machine: the processor, its number of cores, and their load."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        name = models[0] if models else name
    n_cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    state = "busy" if load > 0.7 * n_cores else "quiet"
    return f"{name}, {n_cores} cores, {state} (load {load:.1f})"


def _measure_scripts(bench: Bench, stage: Stage[Any]) -> dict[str, list[Dialogue]]:
    """Measures scripts of all items that are read, and returns evenly chosen dialogues of each source by its name.

    Adds their cost and the shape of each source to `bench`.

    Raises:
        SourceError: no item of a source can be spoken.
    """
    chosen: dict[str, list[Dialogue]] = {}
    processor_s, n_items = 0.0, 0
    for source in bench.config.sources:
        items = _read_items(bench.config, source)
        stage.run([(each,) for each in items[:1]])  # loads the lexicon
        before_s = read_usage().processor_s
        made = stage.run([(each,) for each in items]).outputs
        processor_s += read_usage().processor_s - before_s
        n_items += len(items)
        if not made:
            raise SourceError(f"No item of {source.name} can be spoken.", "`kame refresh` shows the reasons.")
        bench.shapes.append(_measure_script_shape(bench.config, source.name, len(items), made))
        n = min(bench.n_dialogues, len(made))
        chosen[source.name] = [made[at * len(made) // n] for at in range(n)]
    bench.add_cost(SCRIPT, "", "item", processor_s, n_items)
    return chosen


def _read_items(config: RefreshConfig, source: SourceConfig) -> list[Item]:
    """Reads the items in the first `N_READ` rows of a source, fewer rows if the configuration has a lower limit."""
    limit = min(config.limit or N_READ, N_READ)
    return read_items(source, limit, config.split).items


def _measure_script_shape(
    config: RefreshConfig, source: str, n_items: int, dialogues: Sequence[Dialogue]
) -> DialogueShape:
    """Returns the average dialogue of a source as far as scripts tell; `_complete_shapes` fills in the other fields."""
    return DialogueShape(
        source=source,
        n_items=n_items,
        n_spoken=1,
        dialogues_per_item=len(dialogues) / n_items / config.variants,
        utterances=fmean(sum(len(turn.utterances) for turn in each.turns) for each in dialogues),
        words=fmean(count_words(each) for each in dialogues),
        speech_s=1,
        duration_s=1,
        requests=0,
    )


def count_words(dialogue: Dialogue) -> int:
    """Counts the spoken words of both speakers in a dialogue, including backchannels."""
    return sum(len(each.spoken_text.split()) for turn in dialogue.turns for each in turn.utterances)


def _run_warm(stage: Stage[Any], batch: Sequence[Any]) -> tuple[list[Any], float, float]:
    """Runs a stage on the first dialogue, and then on the whole batch.

    Returns:
        The results, and in processor seconds the startup (loading of models) and the second run.
    """
    began_s = read_usage().processor_s
    stage.run(batch[:1])
    warm_s = read_usage().processor_s
    outputs = stage.run(batch).outputs  # the first one again, so that all are measured alike
    processor_s = read_usage().processor_s - warm_s
    return outputs, max(0.0, warm_s - began_s - processor_s / max(1, len(batch))), processor_s


def _add_stage_cost(bench: Bench, name: str, made: dict[str, list[Any]], processor_s: float) -> None:
    """Adds the rate of a stage; for speech, those of text-to-speech and of the recogniser.

    The recogniser's share is measured by a second transcription, and subtracted.
    """
    speech_s = sum(_sum_speech_s(each) for each in made["speech"])
    if name == "speech":
        listened_s = _measure_recogniser(bench, made["speech"])
        if bench.config.gate.asr != NOBODY:
            bench.add_cost("recognition", bench.config.gate.asr, "speech_s", listened_s, speech_s)
        bench.add_cost("tts", get_speech_engine(bench.config), "speech_s", processor_s - listened_s, speech_s)
    elif name == "alignment":
        bench.add_cost(name, bench.config.alignment.aligner, "speech_s", processor_s, speech_s)
    else:
        bench.add_cost(name, "", "duration_s", processor_s, sum(each.duration_s for each in made[MIXING]))


def _sum_speech_s(clips: DialogueClips) -> float:
    """Returns the total duration of the clips of a dialogue in seconds."""
    return sum(samples_to_seconds(clip.n_samples) for clip in clips.clips)


def _measure_recogniser(bench: Bench, speech: Sequence[DialogueClips]) -> float:
    """Measures the processor seconds of transcribing all clips as often as the quality gate did; 0 if it did not."""
    recogniser = build_recogniser(bench.config.gate)
    if recogniser is None:
        return 0.0
    heard: list[tuple[Samples, int]] = [
        (decode_flac(clip.flac), clip.hearing.n_takes) for each in speech for clip in each.clips if clip.hearing
    ]
    if not heard:
        return 0.0
    recogniser.transcribe(pad_with_silence(heard[0][0]), SAMPLE_RATE_HZ)  # loads the model
    before_s = read_usage().processor_s
    for samples, n_takes in heard:
        for _ in range(n_takes):
            recogniser.transcribe(pad_with_silence(samples), SAMPLE_RATE_HZ)
    return read_usage().processor_s - before_s


def _complete_shapes(bench: Bench, scripted: dict[str, list[Dialogue]], speech: Sequence[DialogueClips]) -> None:
    """Fills in the figures of the shapes that need synthesised dialogues: rejects, oracle requests and seconds.

    Seconds are measured per word and scaled to the mean number of words of all scripts.

    Raises:
        SourceError: no dialogue of a source could be synthesised.
    """
    said = {each.dialogue_id: _sum_speech_s(each) for each in speech}
    shapes = []
    for shape in bench.shapes:
        mine = [each for each in bench.dialogues if each.source == shape.source]
        if not mine:
            raise SourceError(
                f"No dialogue of {shape.source} could be synthesised.", "Try more dialogues: --dialogues 16"
            )
        words = sum(count_words(each) for each in mine)
        passed = len(mine) / len(scripted[shape.source])
        plans = [plan_dialogue(each.turns, bench.config.oracle) for each in mine]
        speech_s, duration_s = sum(said[each.dialogue_id] for each in mine), sum(each.duration_s for each in mine)
        figures = {
            "n_spoken": len(mine),
            "dialogues_per_item": shape.dialogues_per_item * passed,
            "speech_s": shape.words * speech_s / words,
            "duration_s": shape.words * duration_s / words,
            "requests": fmean(len(each.requests) for each in plans),
        }
        shapes.append(shape.model_copy(update=figures))
    bench.shapes = shapes


def _measure_prompt_sizes(bench: Bench) -> list[PromptSize]:
    """Estimates the mean prompt tokens of each prompt set; empty if no oracle of the assistant is requested.

    If the chat model counted tokens, all are corrected by the ratio of counted to estimated tokens of its prompt set.
    """
    oracle, sizes = bench.config.oracle, dict[str, list[int]]()
    plans = [plan_dialogue(row.turns, oracle) for row in bench.dialogues]
    asked = [each for plan in plans for each in plan.requests if each.speaker == "A"]
    for name in list_prompt_sets():
        prompts = load_prompts(name)
        payloads = (make_payload(prompts, each, oracle, bench.config.seed, 0) for each in asked)
        sizes[prompts.version] = [estimate_tokens(each)[0] for each in payloads]
    means = {name: fmean(each) for name, each in sizes.items() if each}
    counted = {each.prompt: each.tokens_in for each in bench.chat if each.stage == ORACLE}
    right = next((counted[name] / means[name] for name in means if counted.get(name)), 1.0)
    return [PromptSize(prompt=name, tokens_in=mean * right) for name, mean in means.items()]


def _measure_sizes(bench: Bench, speech: Sequence[DialogueClips], folder: Path, worker_bytes: int) -> None:
    """Adds sizes of clips and Parquet rows, with those of memory, and the cost of publishing to a shard."""
    from data_schemas.arrow import to_table

    store, duration_s = Store(str(folder / "parts")), sum(each.duration_s for each in bench.dialogues)
    with store.open_batch() as batch:
        clips = batch.write_table("clips.parquet", to_table(list(speech), DialogueClips)).n_bytes
        rows = batch.write_table("rows.parquet", to_table(list(bench.dialogues), AudioDialogue)).n_bytes
    before_s = read_usage().processor_s
    for _ in range(N_PUBLISHED):
        store.write_table("shard.parquet", store.read_table("rows.parquet"))
    bench.add_cost("publish", "", "duration_s", read_usage().processor_s - before_s, N_PUBLISHED * duration_s)
    bench.sizes.append(
        EngineSizes(
            engines=describe_engines(bench.config),
            parts_bytes_per_s=(clips + rows) / duration_s,
            shards_bytes_per_s=rows / duration_s,
            main_bytes=bench.main_bytes,
            worker_bytes=worker_bytes,
            chat_bytes=bench.chat_bytes,
        )
    )


def _measure_chat(bench: Bench, stage: str, batch: Sequence[Any], answers: str) -> list[Any]:
    """Runs a stage with its chat model on a batch and returns the results.

    If requests were made, their rate is added to `bench`. `chat_bytes` is raised to the memory that the chat model
    took, and `main_bytes` by what asking added to this process, as it does to a run's main process.

    Args:
        answers: file of the chat model's cached answers.
    """
    config, chat = bench.config, get_chat_model(bench.config, stage)
    assert chat is not None
    usages: list[ChatUsage] = []
    before = bench.meter.measure()
    with build_chat_engine(chat).serve() as endpoint:
        client = open_client(chat, endpoint, config.budget, answers, usages.append)
        asking = build_chat_stage(config, stage, endpoint)
        begun = _read_clocks()
        outputs = run_alone(asking, batch[:1], client).outputs
        warm, since = ChatUsage.sum(usages), _read_clocks()
        outputs = [*outputs, *run_alone(asking, batch[1:], client).outputs]
        all_used = ChatUsage.sum(usages)
        n_measured = all_used.n_requests - warm.n_requests
        if not n_measured:  # the other dialogues asked nothing, or there is only one
            since = begun
        taken_s, used_s = (after_s - before_s for before_s, after_s in zip(since, _read_clocks(), strict=True))
        if chat.engine != "openai":  # it runs here: a busy machine lengthens the clock's time more than the processor's
            taken_s = min(taken_s, used_s)
        after = bench.meter.measure()
    bench.chat_bytes = max(bench.chat_bytes, after.others_bytes - before.others_bytes)
    bench.main_bytes += max(0, after.own_bytes - before.own_bytes)
    if (n_calls := all_used.n_requests) > 0:
        is_oracle = stage == ORACLE
        rate = ChatRate(
            model=endpoint.model,
            prompt=get_prompt_version(stage, config, chat),
            stage="oracle" if is_oracle else "wording",
            n_calls=n_calls,
            calls_per_request=n_calls / (_count_oracles(config, batch) if is_oracle else len(batch)),
            tokens_in=all_used.n_tokens_in / n_calls,
            tokens_cached=None if all_used.n_tokens_cached is None else all_used.n_tokens_cached / n_calls,
            tokens_out=all_used.n_tokens_out / n_calls,
            wall_s=taken_s / (n_measured or n_calls),
        )
        bench.chat.append(rate)
    return outputs


def _read_clocks() -> tuple[float, float]:
    """Returns a time in seconds, and the processor seconds used so far."""
    return time.monotonic(), read_usage().processor_s


def _count_oracles(config: RefreshConfig, batch: Sequence[tuple[AudioDialogue]]) -> float:
    """Returns the expected number of requests for oracles of these dialogues, at least 1."""
    planned = sum(len(plan_dialogue(row.turns, config.oracle).requests) for (row,) in batch)
    return max(1.0, planned * (config.oracle.share_to - config.oracle.share_from))
