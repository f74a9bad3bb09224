"""`kame publish` of checkpoints against a stand-in of the Hub on this machine, and what reads them from there."""

import asyncio
import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from typer.testing import CliRunner, Result

from data_schemas.config.serving import ServeConfig
from data_schemas.errors import BackendError
from flows.cli.app import app
from flows.runs import serve as serving
from flows.runs.serve import Serving
from kame_model.checkpoint.files import CARD, FACTS, WEIGHTS
from kame_model.checkpoint.licences import collect_licences
from kame_model.checkpoint.load import load_checkpoint
from tests.support.hub_server import HubServer, hub_server, use_hub

pytestmark = pytest.mark.full

NAME = "me/nano"
Told = Callable[[Serving], None]
SHIPPED = Path(__file__).resolve().parents[3] / "examples" / "checkpoints" / "nano"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with hub_server() as found:
        use_hub(found, tmp_path / "cache", monkeypatch)
        yield found


@pytest.fixture
def mine(checkpoint: str, tmp_path: Path) -> Path:
    """A whole checkpoint that learnt from rows of known licences."""
    folder = tmp_path / "mine"
    shutil.copytree(checkpoint, folder)
    tell(folder, {"questions of gsm8k": "MIT", "voice en_US-joe-medium of piper": "CC0-1.0"})
    return folder


def tell(folder: Path, licences: dict[str, str | None] | None, init_from: str | None = None) -> None:
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    facts["training"] |= {"licences": licences, "data": ["rows1"], "init_from": init_from}
    (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")


def publish(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["publish", str(folder), NAME, *options])


CODEC = ("--licence", "codec=CC-BY-4.0")


def test_a_published_checkpoint_is_read_by_its_name_and_its_card_tells_licences_and_figures(
    hub: HubServer, mine: Path
) -> None:
    done = publish(mine, *CODEC, "--json")
    assert done.exit_code == 0, done.output
    here, there = load_checkpoint(str(mine)), load_checkpoint(NAME)
    states = [each.front_end.state_dict() for each in (here, there)]
    assert states[0].keys() == states[1].keys()
    assert all(bool((states[0][name] == states[1][name]).all()) for name in states[0])
    assert there.load_codec().digest == here.load_codec().digest
    shown = CliRunner().invoke(app, ["checkpoint", "show", NAME])
    assert shown.exit_code == 0, shown.output
    card = hub.content(NAME, CARD, "model").decode()
    assert yaml.safe_load(card.split("---")[1])["license"] == ["cc-by-4.0", "cc0-1.0", "mit"]
    for told in ("| questions of gsm8k | MIT |", "| codec | CC-BY-4.0 |", f"kame serve {NAME}", "## Figures"):
        assert told in card


@pytest.mark.usefixtures("serve_doubles")
def test_a_published_checkpoint_is_served_by_its_name(
    hub: HubServer, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(mine, *CODEC)
    run, served = serving.run, list[tuple[int, str]]()

    async def run_and_stop(config: ServeConfig, on_ready: Told, on_drain: Told) -> None:
        async def ask(url: str) -> None:
            async with httpx.AsyncClient() as client:
                served.append(((await client.get(f"{url}/healthz")).status_code, config.checkpoint))
            os.kill(os.getpid(), signal.SIGTERM)

        tasks: list[asyncio.Task[None]] = []

        def ready(running: Serving) -> None:
            on_ready(running)
            tasks.append(asyncio.create_task(ask(running.url)))

        await run(config, ready, on_drain)
        await asyncio.gather(*tasks)

    monkeypatch.setattr(serving, "run", run_and_stop)
    shown = CliRunner().invoke(app, ["serve", NAME, "--port", "0"])
    assert shown.exit_code == 0, shown.output
    assert served == [(200, NAME)]
    assert any(f"/{NAME}/resolve/" in each and each.endswith(WEIGHTS) for each in hub.requests)


def test_a_hub_that_breaks_off_is_told(hub: HubServer, mine: Path) -> None:
    publish(mine, *CODEC)
    hub.breaks_off = True
    with pytest.raises(BackendError, match=r"Cannot download .* of me/nano"):
        load_checkpoint(NAME)


def test_everything_comes_in_one_commit_and_again_nothing(hub: HubServer, mine: Path) -> None:
    (mine / "notes.txt").write_text("mine alone", encoding="utf-8")
    assert publish(mine, *CODEC).exit_code == 0
    repository = hub.repositories["model", NAME]
    assert len(repository.commits) == 2  # the Hub's own, and ours
    assert "notes.txt" not in hub.names(NAME, "model")
    assert " 0 files uploaded" in publish(mine, *CODEC).output
    assert len(repository.commits) == 2


def test_folders_of_the_machine_in_a_file_of_an_earlier_version_are_not_published(hub: HubServer, mine: Path) -> None:
    place = "/home/someone/secret project/before"
    tell(mine, {f"weights of {place}": "MIT"}, place)
    done = publish(mine, *CODEC)
    assert done.exit_code == 0, done.output
    published = hub.content(NAME, FACTS, "model") + hub.content(NAME, CARD, "model")
    assert b"before" in published
    assert b"secret" not in published


def test_killed_uploads_are_not_sent_again(hub: HubServer, mine: Path) -> None:
    hub.before = lambda method, path: 500 if "/commit/" in path else None
    assert publish(mine, *CODEC).exit_code == 4
    assert hub.names(NAME, "model") == {".gitattributes"}
    sent = dict(hub.uploads)
    assert hashlib.sha256((mine / WEIGHTS).read_bytes()).hexdigest() in sent
    hub.before = lambda method, path: None
    assert publish(mine, *CODEC).exit_code == 0
    assert hub.uploads == sent


@pytest.mark.parametrize(
    ("licences", "said"),
    [
        (None, "licences are unknown: token rows rows1 (not stated)"),
        ({"questions of mine": None}, "licences are unknown: questions of mine (not stated)"),
        ({"questions of hssbench": "none found: not for redistribution"}, "forbid it: questions of hssbench"),
        ({"questions of calls": "recorded with consent; not for others"}, "forbid it: questions of calls"),
    ],
)
def test_what_it_learnt_from_decides(
    licences: dict[str, str | None] | None, said: str, hub: HubServer, mine: Path
) -> None:
    tell(mine, licences)
    told = publish(mine, *CODEC)
    assert told.exit_code == 2
    assert said in told.stderr
    assert hub.requests == []


def test_a_checkpoint_that_is_not_whole_is_refused(hub: HubServer, mine: Path) -> None:
    (mine / WEIGHTS).unlink()
    told = publish(mine, *CODEC)
    assert told.exit_code == 2
    assert f"{WEIGHTS} is missing" in told.stderr


def test_the_shipped_checkpoint_may_be_published_as_it_is(hub: HubServer) -> None:
    done = publish(SHIPPED)
    assert done.exit_code == 0, done.output
    facts = load_checkpoint(NAME).facts
    assert facts is not None
    assert set(collect_licences(facts).values()) == {"MIT", "CC0-1.0", "Apache-2.0"}
