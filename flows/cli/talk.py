"""`kame talk`: a sound file, or this machine's microphone, talks with a server; what it answers is kept."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.refresh import LlmModel, LlmProvider, LlmUrl
from flows.cli.serve import (
    ServeFile,
    ServeSettings,
    Voice,
    build_serve_config,
    describe_loading,
    make_back_end_settings,
)
from flows.cli.terminal import AsJson, print_json, speaking_plainly

if TYPE_CHECKING:
    from backends.engine import Samples
    from data_schemas.config.serving import ServeConfig
    from kame_model.serve.client.client import Call
    from kame_model.serve.client.talk_record import TalkRecord

ALONE = {"limits.max_sessions": 1}
"""What a server for one talk is told unless somebody says otherwise: its step is the cheapest."""


def talk(
    file: Annotated[
        Path | None, typer.Argument(help="Sound of what to say; of two channels the right one, as in datasets.")
    ] = None,
    say: Annotated[
        list[str],
        typer.Option("--say", help="What to say, spoken by text-to-speech; repeated: each when the last is answered."),
    ] = [],  # noqa: B006
    mic: Annotated[bool, typer.Option("--mic", help="Talk yourself, with a microphone and headphones.")] = False,
    url: Annotated[
        str | None, typer.Option("--url", help="A server that runs; else one is started for this talk alone.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option("--checkpoint", help="Of the server for this talk; else the one shipped.")
    ] = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    voice: Voice = None,
    config: ServeFile = None,
    settings: ServeSettings = [],  # noqa: B006
    out: Annotated[Path, typer.Option("--out", help="Folder for sound, transcript and events.")] = Path("talk"),
    answer_timeout_s: Annotated[
        float,
        typer.Option(
            "--answer-timeout-s", min=1, max=3600, help="After the file: longest wait for the answer's end, seconds."
        ),
    ] = 60.0,
    silence_s: Annotated[
        float | None,
        typer.Option(
            "--silence-s", min=0, max=3600, help="Listen on just so long after the file, answered or not, seconds."
        ),
    ] = None,
    mode: Annotated[str | None, typer.Option("--mode", help="tandem, direct or cascade; else the server's.")] = None,
    back_end: Annotated[str | None, typer.Option("--back-end", help="One of the server's chat models.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="One of the models of that back-end.")] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", help="A prompt of the server's by its name, or instructions of your own.")
    ] = None,
    record: Annotated[bool, typer.Option("--record", help="Be recorded, if you agree when asked.")] = False,
    as_json: AsJson = False,
) -> None:
    """Talk with a server in real time; keeps stereo sound (left the server, right you), transcript and events.

    After the file it listens until the answer has ended, and says so where none comes or it does not end in time. A
    table shows what came of each question: the oracle, the text said, and what a recogniser hears in the sound.

    The server is one that runs (--url; its token in KAME_SERVE_TOKEN), or one that is started for this talk alone, on
    a free port of this machine. Ctrl-C ends the talk, and what was said until then is kept.
    """
    of_server = {
        "--checkpoint": checkpoint,
        "--config": config,
        "--set": settings,
        "--llm-url": llm_url,
        "--llm-model": llm_model,
        "--llm-provider": llm_provider,
        "--voice": voice,
    }
    with speaking_plainly(as_json, goes_on=""):
        _refuse_what_does_not_go_together(file, say, mic, url, of_server)
        from data_schemas.config.serving import TOKEN_ENV
        from flows.settings import parse_settings
        from kame_model.serve.client.client import Call
        from kame_model.serve.client.talk_record import TalkRecord

        token = os.environ.get(TOKEN_ENV) or None
        call = Call(url=url or "", token=token, mode=mode, back_end=back_end, model=model, prompt=prompt)
        server = None
        if url is None:
            typed = {
                **ALONE,
                **make_back_end_settings(llm_url, llm_model, llm_provider, None),
                "checkpoint": checkpoint,
                "voice": voice,
                "mode": mode,
                **parse_settings(settings),
                "host": "127.0.0.1",
                "port": 0,
                "care.token_env": TOKEN_ENV,
            }
            server = build_serve_config(config, typed, "kame talk FILE --checkpoint CHECKPOINT")
        kept = TalkRecord()
        with _save_after(kept, out):
            waits_s = answer_timeout_s, silence_s
            asyncio.run(_talk(call, server, _load_sounds(file, say), waits_s, kept, record=record, quiet=as_json))
        _tell(kept, out, as_json)


@contextmanager
def _save_after(kept: "TalkRecord", out: Path) -> Iterator[None]:
    """Keeps the conversation, whatever ends it.

    Raises:
        StoreError: the folder cannot be written.
    """
    try:
        yield
    except BaseException:
        if kept.has_begun:
            kept.save(out)
            typer.echo(f"kame: What was said until then is in {out}.", err=True)
        raise
    kept.save(out)


def _load_sounds(file: Path | None, texts: list[str]) -> "list[Samples]":
    """What is said, one sound after another; nothing where somebody talks.

    Raises:
        ConfigError: the file is no sound, or a text cannot be said.
        BackendError: the text-to-speech does not work.
    """
    from kame_model.serve.client.client import read_user, speak_user

    return [read_user(file)] if file is not None else [speak_user(text) for text in texts]


def _refuse_what_does_not_go_together(
    file: Path | None, say: list[str], mic: bool, url: str | None, of_server: Mapping[str, object]
) -> None:
    """Refuses options that would do nothing.

    Args:
        of_server: what was typed of a server that is started, by the option.

    Raises:
        ConfigError: which, and what to say instead.
    """
    from data_schemas.errors import ConfigError

    if [file is not None, bool(say), mic].count(True) != 1:
        raise ConfigError("It is not clear who talks.", "Name a sound file, or say --say TEXT or --mic.")
    typed = [name for name, value in of_server.items() if value]
    if url is not None and typed:
        raise ConfigError(
            f"--url is a server that runs; {', '.join(typed)} would be of one that is started for this talk.",
            "Say either.",
        )


async def _talk(
    call: "Call",
    server: "ServeConfig | None",
    sounds: "list[Samples]",
    waits_s: tuple[float, float | None],
    kept: "TalkRecord",
    *,
    record: bool,
    quiet: bool,
) -> None:
    """The conversation, which is put into `kept` as it goes on; one by microphone ends well by Ctrl-C.

    Args:
        sounds: what is said; none: somebody talks.
        waits_s: how long to listen on after each, seconds: until its answer has ended, and so long at the most; or
            just so long, answered or not.
    """
    from dataclasses import replace

    from kame_model.serve.client.client import play_in_real_time, play_in_sequence, play_until_answered, talk

    answer_timeout_s, silence_s = waits_s

    def say(sound: "Samples") -> "AsyncIterator[Samples]":
        if silence_s is None:
            return play_until_answered(sound, kept, answer_timeout_s)
        return play_in_real_time(sound, silence_s)

    async with AsyncExitStack() as stack:
        if server is not None:
            from flows.runs.serve import run_server

            typer.echo(f"kame: a server for this talk: {describe_loading(server)} ...", err=True)
            running = await stack.enter_async_context(run_server(server))
            call = replace(call, url=running.url)
        if record:
            call = replace(call, consent=await _ask_to_agree(call))
        told = (lambda event: None) if quiet else _tell_event
        if sounds:
            if not quiet:
                typer.echo(f"kame: talking with {call.url}, in real time ...", err=True)
            await talk(call, play_in_sequence(sounds, say), told, kept=kept)
            return
        from kame_model.serve.client.sound_device import open_sound_device

        device = stack.enter_context(open_sound_device())
        typer.echo("kame: speak; wear headphones, or it hears itself. Ctrl-C ends it.", err=True)
        await talk(call, _read_until_interrupted(device.capture_frames()), told, device.play, kept)


async def _ask_to_agree(call: "Call") -> str:
    """Tells what recordings are for, and asks; returns the word by which the server knows that this was told.

    Raises:
        ConfigError: the server records nobody.
        typer.Abort: no.
    """
    import httpx

    from data_schemas.errors import BackendError, ConfigError

    try:
        async with httpx.AsyncClient(trust_env=False) as client:
            about = (await client.get(f"{call.http}/v1/about")).raise_for_status().json()
    except httpx.HTTPError as error:
        raise BackendError(f"{call.url} does not say what it records: {error}.", "Talk without --record.") from error
    if not about["records"]:
        raise ConfigError(f"{call.url} records nobody.", "Talk without --record.")
    typer.echo(f"{about['record_notice']} It is deleted after {about['keep_days']:g} days.", err=True)
    typer.confirm("Do you agree?", abort=True, err=True)
    return str(about["record_consent"])


async def _read_until_interrupted(frames: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """The frames, until Ctrl-C."""
    import signal

    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, asked.set)
    try:
        async for frame in frames:
            if asked.is_set():
                return
            yield frame
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _tell_event(event: dict[str, Any]) -> None:
    """The events that people want to see while they talk, as lines on the error stream."""
    kind, data = event["kind"], event["data"]
    line = {
        "started": lambda: f"{_format_choice(data)}. {data.get('notice', '')}",
        "heard": lambda: f"you: {data['text']}" if data["is_final"] else "",
        "oracle_failed": lambda: f"the back-end {data['back_end']} failed: {data['reason']}",
        "voice_failed": lambda: f"{data['text']!r} is not said: {data['reason']}",
        "sentence_left_out": lambda: f"a sentence of the answer is left out: {data['reason']}",
        "ended": lambda: f"the server ended it: {data['reason']}",
    }.get(kind, str)()
    if line:
        typer.echo(f"{event['time_s']:7.2f} s  {line}", err=True)


def _format_choice(data: dict[str, Any]) -> str:
    model = data.get("model")
    chosen = f"{data['mode']}, back-end {data['back_end']}" + (f", model {model}" if model else "")
    is_read_out = data.get("voice") == "synthesised" and data["mode"] != "cascade"
    return f"{chosen}; its text is said by text-to-speech" if is_read_out else chosen


def _tell(kept: "TalkRecord", out: Path, as_json: bool) -> None:
    """What came of it: the transcript beside what was whispered, all oracles, what was heard, and where it is kept."""
    from dataclasses import asdict

    from flows.cli import show
    from kame_model.serve.client.talk_record import EVENTS, TRANSCRIPT, WAV

    lines, oracles = [*zip(kept.get_lines(), kept.list_oracles_by_line(), strict=True)], kept.get_oracles()
    exchanges = [(each.question, each.oracle, each.text, _hear(each.sound)) for each in kept.get_exchanges()]
    if as_json:
        transcript = [
            {"at_s": at_s, "speaker": speaker, "text": text, "whispered": whispered}
            for (at_s, speaker, text), whispered in lines
        ]
        told = {
            "transcript": transcript,
            "oracles": [asdict(each) for each in oracles],
            "exchanges": [dict(zip(("question", "oracle", "text", "heard"), each, strict=True)) for each in exchanges],
            "ended": kept.ended,
            "lacks": kept.lacks,
        }
        print_json({"out": str(out), **told, "n_gaps": kept.player.n_gaps, "dropped": kept.count_dropped_frames()})
        return
    console = show.console()
    for (at_s, speaker, text), whispered in lines:
        console.print(f"{at_s:7.2f} s  {speaker}: {text}", markup=False)
        if whispered:
            console.print(f"           whispered to it: {whispered}", markup=False)
    ages = ["" if each.age_s is None else f"{each.age_s:.2f}" for each in oracles]
    rows = [
        (f"{each.asked_s:.2f}", age, each.back_end, each.state, each.text)
        for each, age in zip(oracles, ages, strict=True)
    ]
    if rows:
        console.print(show.table("Oracles", ("asked, s", "first words after, s", "back-end", "state", "text"), rows))
    if exchanges:
        head = "question, as heard", "oracle", "text said", "heard in the sound"
        console.print(show.table("What was understood", head, exchanges))
    if kept.lacks:
        console.print(kept.lacks, markup=False)
    if kept.ended:
        console.print(f"The server ended it: {kept.ended}", markup=False)
    for direction, n_frames in kept.count_dropped_frames().items():
        console.print(f"{n_frames} frames of 80 ms of what was {direction} were too late and dropped.")
    if kept.player.n_gaps:
        console.print(f"The server's sound came late {kept.player.n_gaps} times; gaps are where it did.")
    console.print(f"Listen: {out / WAV} (left: assistant, right: user); text: {out / TRANSCRIPT}; {out / EVENTS}")


def _hear(sound: "Samples") -> str:
    """What the embedded recogniser hears in a sound, 24 kHz; empty where there is nothing to hear."""
    from backends import registry
    from backends.asr.protocol import HearingRefused, Recogniser
    from data_schemas.units import SAMPLE_RATE_HZ
    from kame_model.evaluate.delays import find_audible_spans
    from kame_model.serve.client.answer_watch import AUDIBLE

    if not find_audible_spans(sound, AUDIBLE):
        return ""
    recogniser: Recogniser = registry.build("asr", "moonshine", {})
    try:
        return recogniser.transcribe(sound, SAMPLE_RATE_HZ)
    except HearingRefused as refusal:
        return f"({refusal.what})"
