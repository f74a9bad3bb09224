"""The stages that may ask a chat model: which one each asks, when it is started, and how it is run.

`pictures` and `wording` ask only where a model is configured for them, and pass everything on else; the oracle's
simulator may be one that asks nobody. A stage that asks nobody is run like any other, in this process.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

from backends.chat.budget import check_price
from backends.chat.protocol import ChatEngine, Endpoint
from backends.chat.providers import price_of
from data_schemas.config import ChatConfig, RefreshConfig
from data_schemas.records import Dialogue
from data_schemas.store import Store
from pipelines.oracle.prompts import prompts_for
from pipelines.oracle.random_answers import DialoguesOf, RandomOracleStage
from pipelines.oracle.stage import OracleStage
from pipelines.pictures.stage import PicturesStage
from pipelines.run.ask import AskingStage, parts_at_once, run_alone, run_asking
from pipelines.run.execute import OnPart, Part, Runner
from pipelines.run.stages import MIXING, ORACLE, PICTURES, SERVED_STAGES, OnUsage, chat_engine, open_client
from pipelines.stage import Stage, StageDescription, StageResult
from pipelines.wording.stage import WordingStage

ANSWERS = ".store/answers.sqlite"


def model_of(config: RefreshConfig, stage: str) -> ChatConfig | None:
    """The chat model that a stage asks; None where it asks nobody."""
    if stage == ORACLE:
        return None if config.oracle.simulator == "random" else config.chat
    return config.pictures if stage == PICTURES else config.wording


def described(config: RefreshConfig, stage: str) -> StageDescription:
    """A stage that may ask, for fingerprints: its model is described, and not started."""
    engine = _engine(config, stage)
    return _asks_nobody(config, stage) if engine is None else _asks(config, stage, engine.describe())


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
def chat_servers(config: RefreshConfig, parts: Sequence[Part]) -> Iterator[ChatServers]:
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
        for stage in SERVED_STAGES:
            chat = model_of(config, stage)
            if chat is None or not runner.pending(stage, parts):
                continue
            server = next((server for asked, server in started if asked == chat), None)
            if server is None:
                stop = all_servers.enter_context(ExitStack())
                server = _Server(stop.enter_context(chat_engine(chat).serve()), stop)
                check_price(server.endpoint, price_of(chat, server.endpoint.model), config.budget)
                started.append((chat, server))
            by_stage[stage] = server
        yield ChatServers(by_stage)


def run_served(
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
    store, chat = Store(config.out), model_of(config, stage)
    runner = Runner(store)
    pending = runner.pending(stage, parts, on_part)
    if not pending:
        return
    if chat is None:
        alone = _asks_nobody(config, stage, partial(_dialogues_of, runner, parts))
        for part in pending:
            on_part(stage, part, runner.run(part, alone))
        return
    assert endpoint is not None  # `chat_servers` saw the same parts pending
    asking = _asks(config, stage, endpoint)
    client = open_client(chat, endpoint, config.budget, store.at(ANSWERS), on_usage)
    n_at_once = parts_at_once(chat.n_in_flight, config.parts.dialogues_per_part)
    if chat.transport == "batch":
        n_at_once = len(pending)  # one hand-in takes hours, however much is in it
    run_asking(runner, asking, pending, client, n_at_once, lambda part, record: on_part(stage, part, record))


def run_in_memory(config: RefreshConfig, stage: str, batch: Sequence[Any], cache_path: str) -> StageResult[Any]:
    """What a stage that may ask makes of a batch, its model started for it alone and its answers kept in a file."""
    chat, engine = model_of(config, stage), _engine(config, stage)
    if chat is None or engine is None:
        return _asks_nobody(config, stage).run(batch)
    with engine.serve() as endpoint:
        client = open_client(chat, endpoint, config.budget, cache_path, lambda _: None)
        return run_alone(_asks(config, stage, endpoint), batch, client)


def _engine(config: RefreshConfig, stage: str) -> ChatEngine | None:
    chat = model_of(config, stage)
    return None if chat is None else chat_engine(chat)


def _asks_nobody(config: RefreshConfig, stage: str, dialogues_of: DialoguesOf = lambda *_: iter(())) -> Stage[Any]:
    if stage == PICTURES:
        return PicturesStage({}, None)
    if stage == ORACLE:
        return RandomOracleStage(config.oracle, config.seed, dialogues_of)
    return WordingStage(None, config.seed)


def _dialogues_of(runner: Runner, parts: Sequence[Part], source: str, split: str) -> Iterator[list[Dialogue]]:
    """What the random oracles read of a source's other parts; `parts` are all that the plan has."""
    for part in sorted(parts, key=lambda part: part.part_id):
        if (part.source, part.split) == (source, split):
            yield runner.read(part, MIXING, Dialogue)


def _asks(config: RefreshConfig, stage: str, endpoint: Endpoint) -> AskingStage[Any]:
    if stage == PICTURES:
        folders = {source.name: source.pictures for source in config.sources if source.pictures}
        return PicturesStage(folders, endpoint)
    if stage == ORACLE:
        return OracleStage(config.oracle, config.seed, endpoint, prompts_for(config.oracle, config.chat))
    return WordingStage(endpoint, config.seed)
