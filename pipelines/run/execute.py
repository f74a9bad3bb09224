"""Applies stages to parts: reads, checks the schema at the edge, writes beside and renames, then records it.

A part's output of a stage is one Parquet file named by its fingerprint, and a record beside it, written last, with the
checksum and the rejects. Only what has a record is there; what is recorded is never made again.

Stages that fill processors are run in worker processes, a part at a time (`workers.Workers`); those that may ask a chat
model in this one, several parts at once (`run_chat_stage`).
"""

import asyncio
import json
import math
import platform
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple, TypeVar

from backends.chat.budget import ChatUsage, check_price
from backends.chat.cache import ReplyCache
from backends.chat.client import OpenAIChatClient
from backends.chat.limits import Pace
from backends.chat.protocol import ChatClient, Endpoint
from backends.chat.providers import get_price
from data_schemas.arrow import from_table, schema_of, to_table
from data_schemas.config import BudgetConfig, ChatConfig, RefreshConfig
from data_schemas.errors import BackendError, StoreError
from data_schemas.fingerprint import fingerprint
from data_schemas.records import Dialogue, Item, Reject
from data_schemas.store import Batch, Store
from pipelines.asking import AskingStage, OpenClient, gather_all, run_alone
from pipelines.run.parts import ITEMS, Part, PartRecord
from pipelines.run.stages import (
    CHAT_STAGES,
    MIXING,
    build_chat_stage,
    build_cpu_stages,
    build_stage_without_chat,
    chat_engine,
    chat_model_of,
)
from pipelines.stage import Stage, StageDescription, StageResult

ANSWERS = ".store/answers.sqlite"
"""The chat models' answers, in a dataset's folder."""

REQUESTS_A_PLACE = 2
"""Requests in sight for each place in flight, where a dialogue is but one request: no place waits for a part's end."""

Record = TypeVar("Record")
OnUsage = Callable[[ChatUsage], None]


OnPart = Callable[[str, Part, PartRecord], None]
"""Is told of a stage's output for a part, made now or found."""

RunOne = Callable[[RefreshConfig, str, Part], PartRecord]
"""Runs one stage on one part; a module's function, so that worker processes find it."""


class Runner:
    """Runs stages on the parts of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def put_items(self, parts: Iterable[tuple[Part, Sequence[Item]]]) -> None:
        """Lays down what the first stage reads of each part."""
        with self.store.batch() as batch:
            for part, items in parts:
                if self.record(part, ITEMS) is None:
                    self._put(batch, part, ITEMS, StageResult(list(items), []), Item)

    def record(self, part: Part, stage: str) -> PartRecord | None:
        """The record of a stage's output for a part, or None where there is none or its file is gone or cut."""
        path = part.record_path(stage)
        if not self.store.exists(path):
            return None
        try:
            raw = json.loads(self.store.read_bytes(path))
            rejects = [Reject(**each) for each in raw.pop("rejects")]
            record = PartRecord(
                **{name: raw[name] for name in ("n_rows", "n_bytes", "sha256", "n_to_retry")}, rejects=rejects
            )
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"The record {self.store.at(path)} is damaged: {error}.", "Remove it and run again."
            ) from error
        whole = self.store.exists(part.path(stage)) and self.store.n_bytes(part.path(stage)) == record.n_bytes
        return record if whole else None

    def pending(self, stage: str, parts: Sequence[Part], on_found: OnPart = lambda *_: None) -> list[Part]:
        """The parts that lack the stage's output, or have one that another try may better; tells of the others."""
        lacking = []
        for part in parts:
            record = self.record(part, stage)
            if record is None or not record.is_final:
                lacking.append(part)
            else:
                on_found(stage, part, record)
        return lacking

    def finished(self, part: Part, stage: str) -> PartRecord:
        """The record of an output that must be there.

        Raises:
            StoreError: it is not.
        """
        record = self.record(part, stage)
        if record is None:
            raise StoreError(
                f"Part {part.part_id} has no output of stage {stage}.", "Run the same command again; it makes it."
            )
        return record

    def read(self, part: Part, stage: str, record_type: type[Record]) -> list[Record]:
        """A stage's output for a part, as records that may have fewer fields than the file has columns."""
        record = self.finished(part, stage)
        names = schema_of(record_type).names
        return from_table(self.store.read_table(part.path(stage), names, record.sha256), record_type)

    def run(self, part: Part, stage: Stage[Any]) -> PartRecord:
        """The stage's output for a part: what is recorded, or made now from its inputs."""
        done = self.record(part, stage.name)
        if done is not None and done.is_final:
            return done
        check_fingerprint(part, stage)
        return self.keep(part, stage, stage.run(self.batch(part, stage)))

    def batch(self, part: Part, stage: StageDescription) -> list[tuple[Any, ...]]:
        """What a stage is given of a part."""
        inputs: list[list[Any]] = [
            self.read(part, name, record_type)
            for name, record_type in zip(stage.inputs, stage.input_types, strict=True)
        ]
        return join_inputs(inputs)

    def keep(self, part: Part, stage: StageDescription, result: StageResult[Any]) -> PartRecord:
        """Records what a stage made of a part."""
        with self.store.batch() as batch:
            return self._put(batch, part, stage.name, result, stage.output_type)

    def _put(self, batch: Batch, part: Part, stage: str, result: StageResult[Any], record_type: type) -> PartRecord:
        written = batch.write_table(part.path(stage), to_table(result.outputs, record_type))
        record = PartRecord(
            n_rows=len(result.outputs),
            n_bytes=written.n_bytes,
            sha256=written.sha256,
            n_to_retry=result.n_to_retry,
            rejects=result.rejects,
        )
        text = json.dumps({"stage": stage, "fingerprint": part.fingerprints[stage], **asdict(record)}, indent=1)
        batch.write_bytes(part.record_path(stage), text.encode())
        return record


def check_fingerprint(part: Part, stage: StageDescription) -> None:
    """Whether a stage as it is in this process makes what the part's fingerprint stands for.

    Raises:
        BackendError: it would make something else: this machine has other models, libraries or code than the one that
            planned the run, or they have changed since.
    """
    inputs = [part.fingerprints[name] for name in stage.inputs]
    if fingerprint(stage.name, stage.version, stage.matters(), inputs) != part.fingerprints[stage.name]:
        raise BackendError(
            f"{platform.node()} would make another {stage.name} of part {part.part_id} than was planned.",
            "Install the same version of everything, and the same models and voices, on all machines, and run again.",
        )


def join_inputs(inputs: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """One tuple a dialogue that stands in every input, in the first input's order; a lone input as it is."""
    if len(inputs) == 1:
        return [(each,) for each in inputs[0]]
    others = [{each.dialogue_id: each for each in records} for records in inputs[1:]]
    return [
        (each, *(other[each.dialogue_id] for other in others))
        for each in inputs[0]
        if all(each.dialogue_id in other for other in others)
    ]


def run_on_part(config: RefreshConfig, stage: str, part: Part) -> PartRecord:
    """Runs one stage on one part in this process."""
    return Runner(Store(config.out)).run(part, build_cpu_stages(config)[stage])


class _Server(NamedTuple):
    """A chat server that is up, and what stops it."""

    endpoint: Endpoint
    stop: ExitStack


class ChatServers:
    """The chat servers of a run, by the stage that asks them; all are up."""

    def __init__(self, by_stage: Mapping[str, _Server]) -> None:
        self._by_stage = dict(by_stage)

    @contextmanager
    def endpoint_for(self, stage: str) -> Iterator[Endpoint | None]:
        """The model of a stage for the time of a block, after which it is stopped unless a later stage asks it.

        None where the stage asks nobody, or no part lacked its output when the servers were started.
        """
        if stage not in self._by_stage:
            yield None
            return
        server = self._by_stage.pop(stage)
        yield server.endpoint
        if all(server is not other for other in self._by_stage.values()):
            server.stop.close()


@contextmanager
def start_chat_servers(config: RefreshConfig, parts: Sequence[Part]) -> Iterator[ChatServers]:
    """Starts, or reaches, each chat model that some part waits for: once a run, and before any part is worked on.

    Hours of speech would else be made before it shows that the model cannot be had. Stages whose settings are equal
    share one server. All are stopped when the block ends.

    Raises:
        BackendError: one cannot be started or reached, or refuses our key.
        ConfigError: a budget in dollars for a model whose price is not known.
    """
    runner = Runner(Store(config.out))
    started: list[tuple[ChatConfig, _Server]] = []
    by_stage: dict[str, _Server] = {}
    with ExitStack() as all_servers:
        for stage in CHAT_STAGES:
            chat = chat_model_of(config, stage)
            if chat is None or not runner.pending(stage, parts):
                continue
            server = next((server for asked, server in started if asked == chat), None)
            if server is None:
                stop = all_servers.enter_context(ExitStack())
                server = _Server(stop.enter_context(chat_engine(chat).serve()), stop)
                check_price(server.endpoint, get_price(chat, server.endpoint.model), config.budget)
                started.append((chat, server))
            by_stage[stage] = server
        yield ChatServers(by_stage)


def run_chat_stage(
    config: RefreshConfig,
    stage: str,
    parts: Sequence[Part],
    endpoint: Endpoint | None,
    on_part: OnPart,
    on_usage: OnUsage,
) -> None:
    """Runs a stage that may ask on those parts that lack it; `on_part` sees every part once.

    Args:
        parts: all of the plan's where the stage asks nobody; else as many as are to be asked for together.
        endpoint: what `ChatServers.endpoint_for` gave.
        on_usage: is given what these parts take, counted while it runs.
    """
    store, chat = Store(config.out), chat_model_of(config, stage)
    runner = Runner(store)
    pending = runner.pending(stage, parts, on_part)
    if not pending:
        return
    if chat is None:
        alone = build_stage_without_chat(config, stage, partial(_dialogues_of, runner, parts))
        for part in pending:
            on_part(stage, part, runner.run(part, alone))
        return
    assert endpoint is not None  # `start_chat_servers` saw the same parts pending
    asking = build_chat_stage(config, stage, endpoint)
    client = open_client(chat, endpoint, config.budget, store.at(ANSWERS), on_usage)
    n_at_once = parts_at_once(chat.n_in_flight, config.parts.dialogues_per_part)
    if chat.transport == "batch":
        n_at_once = len(pending)  # one hand-in takes hours, however much is in it
    run_asking(runner, asking, pending, client, n_at_once, on_part)


def run_in_memory(config: RefreshConfig, stage: str, batch: Sequence[Any], cache_path: str) -> StageResult[Any]:
    """What a stage that may ask makes of a batch, its model started for it alone and its answers kept in a file."""
    chat = chat_model_of(config, stage)
    if chat is None:
        return build_stage_without_chat(config, stage).run(batch)
    with chat_engine(chat).serve() as endpoint:
        client = open_client(chat, endpoint, config.budget, cache_path, lambda _: None)
        return run_alone(build_chat_stage(config, stage, endpoint), batch, client)


def _dialogues_of(runner: Runner, parts: Sequence[Part], source: str, split: str) -> Iterator[list[Dialogue]]:
    """What the random oracles read of a source's other parts; `parts` are all that the plan has."""
    for part in sorted(parts, key=lambda part: part.part_id):
        if (part.source, part.split) == (source, split):
            yield runner.read(part, MIXING, Dialogue)


def open_client(
    chat: ChatConfig, endpoint: Endpoint, budget: BudgetConfig, cache_path: str, on_usage: OnUsage
) -> OpenClient:
    """How to open a client of a running endpoint, with answers cached in `cache_path`.

    Args:
        on_usage: is given the client's counts when it opens; they grow while it is open.
    """
    pace = Pace(chat)  # what one client learns of the server's limits, the next one knows

    @asynccontextmanager
    async def opened() -> AsyncIterator[ChatClient]:
        with ReplyCache(cache_path) as cache:
            async with OpenAIChatClient(endpoint, chat, cache, budget=budget, pace=pace) as client:
                on_usage(client.usage)
                yield client

    return opened


def parts_at_once(n_in_flight: int, dialogues_per_part: int) -> int:
    """How many parts must be in progress to keep so many requests in flight."""
    return math.ceil(REQUESTS_A_PLACE * n_in_flight / dialogues_per_part)


def run_asking(
    runner: Runner,
    stage: AskingStage[Any],
    parts: Sequence[Part],
    open_client: OpenClient,
    n_at_once: int,
    on_part: OnPart,
) -> None:
    """Runs an asking stage on parts, in their order, and tells `on_part` of each as it is recorded.

    Args:
        n_at_once: parts in progress at once (`parts_at_once`).

    Raises:
        KameError: of the part that failed first; those recorded before stay.
    """

    async def all_parts() -> None:
        places = asyncio.Semaphore(n_at_once)
        async with open_client() as client:

            async def one(part: Part) -> None:
                async with places:
                    result = await stage.run_with(runner.batch(part, stage), client)
                    on_part(stage.name, part, runner.keep(part, stage, result))

            await gather_all([one(part) for part in parts])

    if parts:
        asyncio.run(all_parts())
