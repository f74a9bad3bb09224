"""The server as a Prefect flow: it serves until its run is cancelled, and its page is linked from the run's.

To cancel is to stop as SIGTERM does: nobody is let in any more, and those who talk may finish. It runs in the flow
run's own process, without tasks: there is nothing to resume, and nothing of a conversation goes to Prefect.
"""

import asyncio

from prefect import flow, get_run_logger
from prefect.artifacts import create_link_artifact

from data_schemas.config.serving import ServeConfig
from flows.run_names import make_namer
from flows.runs.serve import Serving, run


@flow(name="serve", flow_run_name=make_namer("serve"), persist_result=False)
def serve(config: ServeConfig) -> None:
    """Lets people talk with a front-end, any chat model behind it, until the run is cancelled.

    Args:
        config: All there is to say of a server. Paths are as the worker sees them; secrets come from its environment.
    """
    log = get_run_logger()

    def on_ready(running: Serving) -> None:
        create_link_artifact(running.url, link_text=running.url, key="page", description=config.checkpoint)
        log.info("ready at %s", running.url)

    def on_draining(running: Serving) -> None:
        log.info("nobody is let in any more; %d callers may finish", len(running.server.sessions))

    asyncio.run(run(config, on_ready, on_draining))
