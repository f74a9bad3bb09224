"""Applies stages to parts: reads the inputs, checks their schema, writes the output atomically, then records it.

The output of a stage for a part is one Parquet file named by its fingerprint. Its record, written last, holds the
checksum and the rejects. An output without a record does not count; a recorded output is never made again.

Stages limited by the processor run in worker processes, one part at a time (`workers.Workers`). Stages that may call a
chat model run in this process, several parts at once (`run_chat_stage`).
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
from backends.chat.client import OpenAIChatClient
from backends.chat.limits import Pace
from backends.chat.postgres_cache import open_reply_cache
from backends.chat.protocol import ChatClient, Endpoint
from backends.chat.providers import get_price
from data_schemas.arrow import from_table, make_schema, to_table
from data_schemas.config import BudgetConfig, ChatConfig, RefreshConfig
from data_schemas.errors import BackendError, StoreError
from data_schemas.fingerprint import compute_fingerprint
from data_schemas.records import Dialogue, Item, Reject
from data_schemas.store import Store, WriteBatch
from pipelines.asking import AskingStage, OpenClient, gather_all, run_alone
from pipelines.run.parts import ITEMS, Part, PartRecord
from pipelines.run.stages import (
    CHAT_STAGES,
    MIXING,
    build_chat_engine,
    build_chat_stage,
    build_cpu_stages,
    build_stage_without_chat,
    get_chat_model,
)
from pipelines.stage import Stage, StageDescription, StageResult

ANSWERS = ".store/answers.sqlite"
"""Cache of the chat models' answers, in a dataset's folder."""

REQUESTS_A_PLACE = 2
"""Requests prepared for each request in flight, counting one per dialogue, so that no slot waits for the end of a part.
"""

Record = TypeVar("Record")
OnUsage = Callable[[ChatUsage], None]


OnPart = Callable[[str, Part, PartRecord], None]
"""Called with the output of a stage for a part, whether it was made now or found."""

RunOne = Callable[[RefreshConfig, str, Part], PartRecord]
"""Runs one stage on one part; a function of a module, so that worker processes can unpickle it."""


class Runner:
    """Runs stages on the parts of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def put_items(self, parts: Iterable[tuple[Part, Sequence[Item]]]) -> None:
        """Writes and records the items of each part, the first stage's input, in one batch; skips recorded ones."""
        with self.store.open_batch() as batch:
            for part, items in parts:
                if self.read_record(part, ITEMS) is None:
                    self._put(batch, part, ITEMS, StageResult(list(items), []), Item, {})

    def read_record(self, part: Part, stage: str) -> PartRecord | None:
        """Returns the record of a stage's output, or None if it or the output's file is missing or truncated.

        Raises:
            StoreError: the record is damaged.
        """
        path = part.get_record_path(stage)
        if not self.store.exists(path):
            return None
        try:
            raw = json.loads(self.store.read_bytes(path))
            rejects = [Reject(**each) for each in raw.pop("rejects")]
            record = PartRecord(
                **{name: raw[name] for name in ("n_rows", "n_bytes", "sha256", "n_to_retry")},
                rejects=rejects,
                open_inputs=raw.get("open_inputs", {}),  # older records lack it and the next one
                other_request_ids=raw.get("other_request_ids", []),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"The record {self.store.resolve_path(path)} is damaged: {error}.", "Remove it and run again."
            ) from error
        whole = self.store.exists(part.get_path(stage)) and self.store.get_size(part.get_path(stage)) == record.n_bytes
        return record if whole else None

    def list_pending(self, stage: str, parts: Sequence[Part]) -> list[Part]:
        """Returns the parts whose output of a stage is missing or not final: a run may have to make it."""
        records = ((part, self.read_record(part, stage)) for part in parts)
        return [part for part, record in records if record is None or not record.is_final]

    def list_to_make(self, stage: str, parts: Sequence[Part], on_found: OnPart) -> list[Part]:
        """Returns the parts whose output of a stage must be made now; calls `on_found` for the others.

        The inputs of the stage must have been made before.
        """
        lacking = []
        for part in parts:
            record = self._read_usable(part, stage)
            if record is None:
                lacking.append(part)
            else:
                on_found(stage, part, record)
        return lacking

    def _read_usable(self, part: Part, stage: str) -> PartRecord | None:
        """Returns the record of a stage's output for a part; None if it must be made, or made again.

        It is made again if it has rows to retry, or if an input that was not final then (`open_inputs`) is final,
        changed or gone now.
        """
        record = self.read_record(part, stage)
        if record is None or record.n_to_retry:
            return None
        for name, sha256 in record.open_inputs.items():
            now = self.read_record(part, name)
            if now is None or now.is_final or now.sha256 != sha256:
                return None
        return record

    def read_finished(self, part: Part, stage: str) -> PartRecord:
        """Returns the record of a stage's output for a part, which must exist.

        Raises:
            StoreError: it does not exist, or is damaged.
        """
        record = self.read_record(part, stage)
        if record is None:
            raise StoreError(
                f"Part {part.part_id} has no output of stage {stage}.", "Run the same command again; it makes it."
            )
        return record

    def read(self, part: Part, stage: str, record_type: type[Record]) -> list[Record]:
        """Returns a stage's output for a part as records; the class may have fewer fields than the file has columns.

        Raises:
            StoreError: the output does not exist, or its checksum is wrong.
        """
        record = self.read_finished(part, stage)
        names = make_schema(record_type).names
        return from_table(self.store.read_table(part.get_path(stage), names, record.sha256), record_type)

    def run(self, part: Part, stage: Stage[Any]) -> PartRecord:
        """Runs a stage on a part unless its output can be used as it is, and returns the record of the output.

        Raises:
            BackendError: as `check_fingerprint`.
            StoreError: an input does not exist or is damaged, or the output cannot be written.
        """
        done = self._read_usable(part, stage.name)
        if done is not None:
            return done
        check_fingerprint(part, stage)
        return self.write_result(part, stage, stage.run(self.read_batch(part, stage)))

    def read_batch(self, part: Part, stage: StageDescription) -> list[tuple[Any, ...]]:
        """Returns the inputs of a stage for a part: for each dialogue or item, a tuple of one record of each input.

        Dialogues that one of the inputs lacks are left out (`join_inputs`).
        """
        inputs: list[list[Any]] = [
            self.read(part, name, record_type)
            for name, record_type in zip(stage.inputs, stage.input_types, strict=True)
        ]
        return join_inputs(inputs)

    def write_result(self, part: Part, stage: StageDescription, result: StageResult[Any]) -> PartRecord:
        """Writes the result of a stage for a part and then its record, which is returned; both replace earlier ones."""
        inputs = {name: self.read_finished(part, name) for name in stage.inputs}
        open_inputs = {name: record.sha256 for name, record in inputs.items() if not record.is_final}
        with self.store.open_batch() as batch:
            return self._put(batch, part, stage.name, result, stage.output_type, open_inputs)

    def _put(
        self,
        batch: WriteBatch,
        part: Part,
        stage: str,
        result: StageResult[Any],
        record_type: type,
        open_inputs: dict[str, str],
    ) -> PartRecord:
        """Writes a result and its record in a batch, the record last; returns the record."""
        written = batch.write_table(part.get_path(stage), to_table(result.outputs, record_type))
        record = PartRecord(
            n_rows=len(result.outputs),
            n_bytes=written.n_bytes,
            sha256=written.sha256,
            n_to_retry=result.n_to_retry,
            rejects=result.rejects,
            open_inputs=open_inputs,
            other_request_ids=result.other_request_ids,
        )
        text = json.dumps({"stage": stage, "fingerprint": part.fingerprints[stage], **asdict(record)}, indent=1)
        batch.write_bytes(part.get_record_path(stage), text.encode())
        return record


def check_fingerprint(part: Part, stage: StageDescription) -> None:
    """Checks that the stage, as it is in this process, produces what the part's fingerprint stands for.

    Raises:
        BackendError: it would not: this machine has other models, libraries or code than the one that planned the run,
            or they have changed since.
    """
    inputs = [part.fingerprints[name] for name in stage.inputs]
    if (
        compute_fingerprint(stage.name, stage.version, stage.get_fingerprint_fields(), inputs)
        != part.fingerprints[stage.name]
    ):
        raise BackendError(
            f"{platform.node()} would make a different {stage.name} of part {part.part_id} than was planned.",
            "Install the same versions of all packages, models and voices on all machines, and run again.",
        )


def join_inputs(inputs: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Joins the records of several inputs by dialogue id: one tuple for each dialogue that all inputs contain.

    They are in the order of the first input. Records of a single input need no dialogue id.
    """
    if len(inputs) == 1:
        return [(each,) for each in inputs[0]]
    others = [{each.dialogue_id: each for each in records} for records in inputs[1:]]
    return [
        (each, *(other[each.dialogue_id] for other in others))
        for each in inputs[0]
        if all(each.dialogue_id in other for other in others)
    ]


def run_on_part(config: RefreshConfig, stage: str, part: Part) -> PartRecord:
    """Runs one stage on one part in this process, unless its output can be used; returns the output's record."""
    return Runner(Store(config.out)).run(part, build_cpu_stages(config)[stage])


class _Server(NamedTuple):
    """A running chat server, and the stack that stops it."""

    endpoint: Endpoint
    stop: ExitStack


class ChatServers:
    """The running chat servers of a run, by the stage that uses them."""

    def __init__(self, by_stage: Mapping[str, _Server]) -> None:
        self._by_stage = dict(by_stage)

    @contextmanager
    def open_endpoint(self, stage: str) -> Iterator[Endpoint | None]:
        """Yields the endpoint of a stage, once; after the block its server is stopped unless a later stage uses it.

        Yields None if the stage calls no model, if no part lacked its output when the servers were started, or from the
        second call for a stage on.
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
    """Starts, or connects to, each chat model that some part needs, once per run and before any part is processed.

    Otherwise hours of speech could be made before it turns out that the model, or the shared cache of its answers, is
    unavailable. Stages with equal settings share one server. All servers are stopped when the block ends.

    Raises:
        BackendError: a server or the cache cannot be started or reached, or rejects our key.
        ConfigError: there is a budget in dollars for a model whose price is not known.
    """
    runner = Runner(Store(config.out))
    started: list[tuple[ChatConfig, _Server]] = []
    by_stage: dict[str, _Server] = {}
    with ExitStack() as all_servers:
        for stage in CHAT_STAGES:
            chat = get_chat_model(config, stage)
            if chat is None or not runner.list_pending(stage, parts):
                continue
            server = next((server for asked, server in started if asked == chat), None)
            if server is None:
                stop = all_servers.enter_context(ExitStack())
                server = _Server(stop.enter_context(build_chat_engine(chat).serve()), stop)
                check_price(server.endpoint, get_price(chat, server.endpoint.model), config.budget)
                started.append((chat, server))
            by_stage[stage] = server
        if by_stage and config.cache_url is not None:
            open_reply_cache(config.cache_url).close()
        yield ChatServers(by_stage)


def run_chat_stage(
    config: RefreshConfig,
    stage: str,
    parts: Sequence[Part],
    endpoint: Endpoint | None,
    on_part: OnPart,
    on_usage: OnUsage,
) -> None:
    """Runs a stage that may call a chat model on the parts that lack it; `on_part` is called once for every part.

    Args:
        parts: all parts of the plan if the stage calls no model; otherwise the parts to be requested together.
        endpoint: what `ChatServers.open_endpoint` yielded.
        on_usage: receives the usage of these parts, which is updated while the stage runs.

    Raises:
        KameError: of the part that failed first; parts recorded before are kept.
    """
    store, chat = Store(config.out), get_chat_model(config, stage)
    runner = Runner(store)
    pending = runner.list_to_make(stage, parts, on_part)
    if not pending:
        return
    if chat is None:
        alone = build_stage_without_chat(config, stage, partial(_read_dialogues, runner, parts))
        for part in pending:
            on_part(stage, part, runner.run(part, alone))
        return
    assert endpoint is not None  # `start_chat_servers` found these parts pending
    asking = build_chat_stage(config, stage, endpoint)
    client = open_client(chat, endpoint, config.budget, locate_answers(config), on_usage)
    n_at_once = count_parts_at_once(chat.n_in_flight, config.parts.dialogues_per_part)
    if chat.transport == "batch":
        n_at_once = len(pending)  # one batch job takes hours, whatever its size
    run_asking(runner, asking, pending, client, n_at_once, on_part)


def run_in_memory(config: RefreshConfig, stage: str, batch: Sequence[Any], cache_path: str) -> StageResult[Any]:
    """Runs a stage that may call a chat model on one batch without writing its output, and returns the result.

    The server of the model runs only for this call; its answers are cached in `cache_path`.
    """
    chat = get_chat_model(config, stage)
    if chat is None:
        return build_stage_without_chat(config, stage).run(batch)
    with build_chat_engine(chat).serve() as endpoint:
        client = open_client(chat, endpoint, config.budget, cache_path, lambda _: None)
        return run_alone(build_chat_stage(config, stage, endpoint), batch, client)


def _read_dialogues(runner: Runner, parts: Sequence[Part], source: str, split: str) -> Iterator[list[Dialogue]]:
    """Yields the mixed dialogues of a source and split, a list per part by id; `parts` are all parts of the plan."""
    for part in sorted(parts, key=lambda part: part.part_id):
        if (part.source, part.split) == (source, split):
            yield runner.read(part, MIXING, Dialogue)


def locate_answers(config: RefreshConfig) -> str:
    """Returns where the chat models' answers of a run are cached: a URL, or a file in the dataset's folder."""
    return config.cache_url or Store(config.out).resolve_path(ANSWERS)


def open_client(
    chat: ChatConfig, endpoint: Endpoint, budget: BudgetConfig, cache_path: str, on_usage: OnUsage
) -> OpenClient:
    """Returns a function that opens a client of a running endpoint, with answers cached in `cache_path` (or a URL).

    Args:
        on_usage: receives the client's usage when it opens; it is updated while the client is open.
    """
    pace = Pace(chat)  # shared, so that the next client knows the rate limits that the last one found

    @asynccontextmanager
    async def open_once() -> AsyncIterator[ChatClient]:
        with open_reply_cache(cache_path) as cache:
            async with OpenAIChatClient(endpoint, chat, cache, budget=budget, pace=pace) as client:
                on_usage(client.usage)
                yield client

    return open_once


def count_parts_at_once(n_in_flight: int, dialogues_per_part: int) -> int:
    """Returns how many parts must be in progress to keep `n_in_flight` requests in flight."""
    return math.ceil(REQUESTS_A_PLACE * n_in_flight / dialogues_per_part)


def run_asking(
    runner: Runner,
    stage: AskingStage[Any],
    parts: Sequence[Part],
    open_client: OpenClient,
    n_at_once: int,
    on_part: OnPart,
) -> None:
    """Runs a stage that calls a chat model on all of these parts, and calls `on_part` for each when it is recorded.

    Parts are started in order, and may end in another.

    Args:
        n_at_once: number of parts in progress at once (`count_parts_at_once`).

    Raises:
        KameError: the error of the part that failed first; parts recorded before are kept.
    """

    async def run_all() -> None:
        """Runs all parts with one client, at most `n_at_once` at a time."""
        places = asyncio.Semaphore(n_at_once)
        async with open_client() as client:

            async def run_one(part: Part) -> None:
                async with places:
                    result = await stage.run_with(runner.read_batch(part, stage), client)
                    on_part(stage.name, part, runner.write_result(part, stage, result))

            await gather_all([run_one(part) for part in parts])

    if parts:
        asyncio.run(run_all())
