"""Prefect flow of a server, which serves until its run is cancelled; the run has a link to its page.

A cancellation is a graceful shutdown, as SIGTERM is: new callers are refused, and running sessions may finish. The
server runs in the process of the flow run, without tasks: there is nothing to resume, and no conversation is sent to
Prefect.
"""

import asyncio

from prefect import flow, get_run_logger
from prefect.artifacts import create_link_artifact

from data_schemas.config.serving import ServeConfig
from flows.run_names import make_namer
from flows.runs.serve import Serving, run


@flow(name="serve", flow_run_name=make_namer("serve"), persist_result=False)
def serve(config: ServeConfig) -> None:
    """Serves a front-end with any chat model as its back-end, until the run is cancelled.

    Args:
        config: Settings of the server. Paths are as the worker sees them; secrets are read from its environment.
    """
    log = get_run_logger()

    def on_ready(running: Serving) -> None:
        create_link_artifact(running.url, link_text=running.url, key="page", description=config.checkpoint)
        log.info("ready at %s", running.url)

    def on_draining(running: Serving) -> None:
        log.info("shutting down: new callers are refused, %d running sessions may finish", len(running.server.sessions))

    asyncio.run(run(config, on_ready, on_draining))
