"""`kame talk`: a client that talks with a server, from an audio file, text or the microphone, and keeps a record."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.refresh import LlmModel, LlmProvider, LlmUrl
from flows.cli.serve import (
    MODES,
    Mode,
    ServeFile,
    ServeSettings,
    Voice,
    build_serve_config,
    describe_loading,
    make_back_end_settings,
)
from flows.cli.terminal import AsJson, print_json, report_errors

if TYPE_CHECKING:
    from backends.engine import Samples
    from data_schemas.config.serving import ServeConfig
    from kame_model.serve.client.client import ServerCall
    from kame_model.serve.client.talk_record import TalkRecord

ALONE = {"limits.max_sessions": 1}
"""Settings of a server that is started for one talk; they override those of --config, and --set overrides them."""


def talk(
    file: Annotated[
        Path | None,
        typer.Argument(help="Audio file of the user's speech; if stereo, the right-hand channel is used."),
    ] = None,
    say: Annotated[
        list[str],
        typer.Option(
            "--say",
            help="Text that is said to the server by text-to-speech. Can be repeated: each text is said after the "
            "answer to the one before.",
        ),
    ] = [],  # noqa: B006
    mic: Annotated[
        bool, typer.Option("--mic", help="Talk with the microphone of this machine; use headphones.")
    ] = False,
    url: Annotated[
        str | None,
        typer.Option("--url", help="URL of a running server. Default: a server is started for this talk only."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", help="Checkpoint of the server that is started. Default: the included nano."),
    ] = None,
    llm_url: LlmUrl = None,
    llm_model: LlmModel = None,
    llm_provider: LlmProvider = None,
    voice: Voice = None,
    config: ServeFile = None,
    settings: ServeSettings = [],  # noqa: B006
    out: Annotated[Path, typer.Option("--out", help="Folder for the audio, transcript and events.")] = Path("talk"),
    answer_timeout_s: Annotated[
        float,
        typer.Option(
            "--answer-timeout-s",
            min=1,
            max=3600,
            help="Maximum wait for the end of the answer after the user's speech, in seconds.",
        ),
    ] = 60.0,
    silence_s: Annotated[
        float | None,
        typer.Option(
            "--silence-s",
            min=0,
            max=3600,
            help="Listen for exactly this long after the user's speech, in seconds, whether or not the answer has "
            "ended.",
        ),
    ] = None,
    mode: Annotated[
        Mode | None,
        typer.Option("--mode", help=f"Mode of the session: {MODES}. Default: the server's."),
    ] = None,
    back_end: Annotated[
        str | None, typer.Option("--back-end", help="Name of one of the server's back-ends (chat models).")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="Name of one of the models of that back-end.")] = None,
    prompt: Annotated[
        str | None,
        typer.Option("--prompt", help="System prompt: the name of a prompt of the server, or your own instructions."),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Let the server record the session, after you have been asked for consent.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Talk with a server in real time, and save the audio (stereo: server left, you right), transcript and events.

    Files of an earlier talk in the same folder are overwritten.

    After the user's speech it listens until the answer has ended, and reports if there is none or it does not end in
    time. A table shows for each question the oracle, the text of the answer, and a transcript of its audio.

    With --url it uses a running server (access token in KAME_SERVE_TOKEN). Otherwise it starts one for this talk only,
    on a free port of this machine. Ctrl-C ends the talk; what was said until then is saved.
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
    with report_errors(as_json, how_to_resume=""):
        _check_options(file, say, mic, url, of_server)
        from data_schemas.config.serving import TOKEN_ENV
        from flows.settings import parse_settings
        from kame_model.serve.client.client import ServerCall
        from kame_model.serve.client.talk_record import TalkRecord

        token = os.environ.get(TOKEN_ENV) or None
        call = ServerCall(url=url or "", token=token, mode=mode, back_end=back_end, model=model, prompt=prompt)
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
            asyncio.run(_talk(call, server, _make_user_audio(file, say), waits_s, kept, record=record, quiet=as_json))
        _print_record(kept, out, as_json)


@contextmanager
def _save_after(kept: "TalkRecord", out: Path) -> Iterator[None]:
    """Saves the record of the conversation when the `with` block ends.

    After an error or an interruption, which is raised again, it is saved only if the conversation has begun.

    Raises:
        StoreError: the folder cannot be written.
    """
    try:
        yield
    except BaseException:
        if kept.has_begun:
            kept.save(out)
            typer.echo(f"kame: the record until then is saved in {out}.", err=True)
        raise
    kept.save(out)


def _make_user_audio(file: Path | None, texts: list[str]) -> "list[Samples]":
    """Returns the audio of the file, or of each text by text-to-speech; an empty list if the microphone is used.

    Raises:
        ConfigError: the file is not audio, or a text cannot be said.
        BackendError: the text-to-speech engine failed.
    """
    from kame_model.serve.client.client import read_user_audio, synthesise_user

    return [read_user_audio(file)] if file is not None else [synthesise_user(text) for text in texts]


def _check_options(
    file: Path | None, say: list[str], mic: bool, url: str | None, of_server: Mapping[str, object]
) -> None:
    """Checks that exactly one source of the user's speech is given, and no option of another server with --url.

    Args:
        of_server: values of the options for a server that is started here, by option.

    Raises:
        ConfigError: the options contradict each other.
    """
    from data_schemas.errors import ConfigError

    if [file is not None, bool(say), mic].count(True) != 1:
        raise ConfigError("What to say is not given exactly once.", "Give one of: an audio FILE, --say TEXT, or --mic.")
    typed = [name for name, value in of_server.items() if value]
    if url is not None and typed:
        raise ConfigError(
            f"--url names a running server, but {', '.join(typed)} is for a server that is started for this talk.",
            "Omit one of the two.",
        )


async def _talk(
    call: "ServerCall",
    server: "ServeConfig | None",
    sounds: "list[Samples]",
    waits_s: tuple[float, float | None],
    kept: "TalkRecord",
    *,
    record: bool,
    quiet: bool,
) -> None:
    """Runs the conversation and records it in `kept`; one by microphone lasts until Ctrl-C.

    Args:
        server: configuration of a server that is started for the conversation; None to use that of `call.url`.
        sounds: the user's utterances; if empty, the microphone is used.
        waits_s: after each utterance, the maximum wait for the end of its answer, and, if not None, the exact time to
            listen instead, in seconds.
        record: whether the server records the session, if the user consents.
    """
    from dataclasses import replace

    from kame_model.serve.client.client import play_in_real_time, play_in_sequence, play_until_answered, talk

    answer_timeout_s, silence_s = waits_s

    def say(sound: "Samples") -> "AsyncIterator[Samples]":
        """Plays an utterance, and then silence until its answer has ended, or for `silence_s`."""
        if silence_s is None:
            return play_until_answered(sound, kept, answer_timeout_s)
        return play_in_real_time(sound, silence_s)

    async with AsyncExitStack() as stack:
        if server is not None:
            from flows.runs.serve import run_server

            typer.echo(f"kame: starting a server for this talk: {describe_loading(server)} ...", err=True)
            running = await stack.enter_async_context(run_server(server))
            call = replace(call, url=running.url)
        if record:
            call = replace(call, consent=await _ask_consent(call))
        on_event = (lambda event: None) if quiet else _print_event
        if sounds:
            if not quiet:
                typer.echo(f"kame: talking with {call.url}, in real time ...", err=True)
            await talk(call, play_in_sequence(sounds, say), on_event, kept=kept)
            return
        from kame_model.serve.client.sound_device import open_sound_device

        device = stack.enter_context(open_sound_device())
        typer.echo(
            "kame: you can speak now. Use headphones, or the model hears itself. Ctrl-C ends the talk.", err=True
        )
        await talk(call, _read_until_interrupted(device.capture_frames()), on_event, device.play, kept)


async def _ask_consent(call: "ServerCall") -> str:
    """Shows the server's notice on recordings and asks for consent; returns the notice's key, which the server checks.

    Raises:
        BackendError: the server does not answer.
        ConfigError: the server does not record.
        typer.Abort: the user does not consent.
    """
    import httpx

    from data_schemas.errors import BackendError, ConfigError

    try:
        async with httpx.AsyncClient(trust_env=False) as client:
            about = (await client.get(f"{call.http}/v1/about")).raise_for_status().json()
    except httpx.HTTPError as error:
        raise BackendError(f"Cannot read the recording notice of {call.url}: {error}.", "Omit --record.") from error
    if not about["records"]:
        raise ConfigError(f"The server {call.url} does not record.", "Omit --record.")
    typer.echo(f"{about['record_notice']} The recording is deleted after {about['keep_days']:g} days.", err=True)
    typer.confirm("Do you agree?", abort=True, err=True)
    return str(about["record_consent"])


async def _read_until_interrupted(frames: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Yields the frames until Ctrl-C, which is not raised as an error."""
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


def _print_event(event: dict[str, Any]) -> None:
    """Prints an event as a line on standard error; events that are not of interest to the user are not printed."""
    kind, data = event["kind"], event["data"]
    line = {
        "started": lambda: f"{_format_choice(data)}. {data.get('notice', '')}",
        "heard": lambda: f"you: {data['text']}" if data["is_final"] else "",
        "oracle_failed": lambda: f"back-end {data['back_end']} failed: {data['reason']}",
        "voice_failed": lambda: f"text-to-speech of {data['text']!r} failed: {data['reason']}",
        "sentence_left_out": lambda: f"a sentence of the answer was skipped: {data['reason']}",
        "ended": lambda: f"the server ended the session: {data['reason']}",
    }.get(kind, str)()
    if line:
        typer.echo(f"{event['time_s']:7.2f} s  {line}", err=True)


def _format_choice(data: dict[str, Any]) -> str:
    """Formats the mode, back-end and model of a session that has started, and whether its text is read out."""
    model = data.get("model")
    chosen = f"{data['mode']}, back-end {data['back_end']}" + (f", model {model}" if model else "")
    is_read_out = data.get("voice") == "synthesised" and data["mode"] != "cascade"
    return f"{chosen}; its text is spoken by text-to-speech" if is_read_out else chosen


def _print_record(kept: "TalkRecord", out: Path, as_json: bool) -> None:
    """Prints the record of a conversation: transcript, oracles, questions and answers, faults, and its files.

    The audio of each answer is transcribed by the embedded recogniser.
    """
    from dataclasses import asdict

    from flows.cli import show
    from kame_model.serve.client.talk_record import EVENTS, TRANSCRIPT, WAV

    lines, oracles = [*zip(kept.get_lines(), kept.list_oracles_by_line(), strict=True)], kept.get_oracles()
    exchanges = [(each.question, each.oracle, each.text, _transcribe(each.sound)) for each in kept.get_exchanges()]
    if as_json:
        transcript = [
            {"at_s": at_s, "speaker": speaker, "text": text, "whispered": whispered}
            for (at_s, speaker, text), whispered in lines
        ]
        summary = {
            "transcript": transcript,
            "oracles": [asdict(each) for each in oracles],
            "exchanges": [dict(zip(("question", "oracle", "text", "heard"), each, strict=True)) for each in exchanges],
            "ended": kept.ended,
            "lacks": kept.lacks,
        }
        print_json({"out": str(out), **summary, "n_gaps": kept.player.n_gaps, "dropped": kept.count_dropped_frames()})
        return
    console = show.open_console()
    for (at_s, speaker, text), whispered in lines:
        console.print(f"{at_s:7.2f} s  {speaker}: {text}", markup=False)
        if whispered:
            console.print(f"           oracle: {whispered}", markup=False)
    ages = ["" if each.age_s is None else f"{each.age_s:.2f}" for each in oracles]
    rows = [
        (f"{each.at_s:.2f}", age, each.back_end, each.state, each.text) for each, age in zip(oracles, ages, strict=True)
    ]
    if rows:
        console.print(
            show.make_table("Oracles", ("requested, s", "first words after, s", "back-end", "state", "text"), rows)
        )
    if exchanges:
        head = "question, as recognised", "oracle", "text of the answer", "transcript of its audio"
        console.print(show.make_table("What was understood", head, exchanges))
    if kept.lacks:
        console.print(kept.lacks, markup=False)
    if kept.ended:
        console.print(f"The server ended the session: {kept.ended}", markup=False)
    for direction, n_frames in kept.count_dropped_frames().items():
        console.print(f"{n_frames} frames of 80 ms that were {direction} came too late and were dropped.")
    if kept.player.n_gaps:
        console.print(f"Gaps in the recording where the server's audio came too late: {kept.player.n_gaps}.")
    console.print(f"Listen: {out / WAV} (left: assistant, right: user); text: {out / TRANSCRIPT}; {out / EVENTS}")


def _transcribe(sound: "Samples") -> str:
    """Transcribes audio at 24 kHz by the embedded recogniser; empty if it is silent, `(reason)` if it is refused."""
    from backends import registry
    from backends.asr.protocol import HearingRefused, Recogniser
    from data_schemas.units import SAMPLE_RATE_HZ
    from kame_model.evaluate.calls.delays import cut_to_audible

    audible = cut_to_audible(sound)
    if len(audible) == 0:
        return ""
    recogniser: Recogniser = registry.build("asr", "moonshine", {})
    try:
        return recogniser.transcribe(audible, SAMPLE_RATE_HZ)
    except HearingRefused as refusal:
        return f"({refusal.what})"
