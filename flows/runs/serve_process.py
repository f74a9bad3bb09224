"""One of several server processes: `python -m flows.runs.serve_process`, started by flows/runs/serve_group.py.

It reads its configuration as JSON from standard input. Failures are reported to the parent, which tells the user.
"""

import argparse
import asyncio
import logging
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from data_schemas.config.serving import ServeConfig
from data_schemas.errors import KameError
from flows.runs.listening import catch_end_signals, wait_for_first
from flows.runs.serve import get_page_folder, load_server, run_web
from kame_model.serve.processes.channel import Report, send_report
from kame_model.serve.processes.member import ProcessMember
from kame_model.serve.processes.shared_counts import COUNTS, SharedCounts
from kame_model.serve.web.app import create_app
from kame_model.serve.web.transport import WebServer


async def serve_member(config: ServeConfig, channel: socket.socket, number: int, folder: Path) -> None:
    """Serves the connections that the parent passes, until SIGTERM, SIGINT, a message of the parent, or its end.

    Running sessions may then finish; a second signal or message ends them.

    Raises:
        KameError: as flows/runs/serve.py, `run_server`, or the device failed.
    """
    async with AsyncExitStack() as stack:
        counts = SharedCounts(folder / COUNTS)
        stack.callback(counts.close)
        server = await stack.enter_async_context(load_server(config, counts))
        app, member = create_app(server, get_page_folder(), counts), ProcessMember(channel, number, folder, counts)
        member.answer_for_all(app)
        web = WebServer(app, server.config)
        await stack.enter_async_context(run_web(web, []))
        await stack.enter_async_context(member.serve_callers(server, app, web))
        asked = stack.enter_context(catch_end_signals())
        orders = (asked, member.parent_is_gone, member.is_retired, member.is_over)
        await wait_for_first(server.wait_until_broken(), *(each.wait() for each in orders))
        asked.clear()
        within_s = None
        if member.is_retired.is_set():  # it loses no call: sessions have an end of their own
            within_s = config.limits.max_session_s
            await member.wait_for_entering_callers(app, config.limits.entry_timeout_s)
        await wait_for_first(server.drain(within_s), asked.wait(), member.is_over.wait())


def main() -> None:
    """Entry point of a server process; a KameError is reported to the parent, and sets the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, kind in (("--channel", int), ("--number", int), ("--folder", Path)):
        parser.add_argument(name, type=kind, required=True)
    options = parser.parse_args()
    config = ServeConfig.model_validate_json(sys.stdin.read())
    logging.basicConfig(level=logging.WARNING, format=f"process {options.number}: %(message)s")
    with socket.socket(fileno=options.channel) as channel:
        try:
            asyncio.run(serve_member(config, channel, options.number, options.folder))
        except KameError as error:
            failed = Report(
                phase="failed",
                error_kind=type(error).__name__,
                error_what=error.what,
                error_remedy=error.remedy,
                unready="failed",
            )
            channel.setblocking(True)
            send_report(channel, failed)
            sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
