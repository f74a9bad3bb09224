"""Prefect automations: train on a dataset that has changed, and send notifications when runs end.

A refresh run emits an event to Prefect if the content of its dataset has changed since the last event. An automation
starts a training on that event; others send messages through blocks, in which Prefect stores their addresses encrypted.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from prefect.blocks.core import Block
from prefect.blocks.notifications import SlackWebhook
from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.events import Event, EventTrigger, Posture, Resource, ResourceSpecification
from prefect.events.actions import ActionTypes, CallWebhook, RunDeployment, SendNotification
from prefect.events.schemas.automations import Automation, AutomationCore
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL, temporary_settings
from pydantic import SecretStr

from dashboard.runs import KINDS
from data_schemas.errors import ConfigError
from data_schemas.manifest import MANIFEST, Manifest
from data_schemas.store import Store

DATASET_CHANGED: Final = "kame.dataset.changed"
LAST_EVENT: Final = ".store/told.json"
"""File with the last emitted fingerprint, in the dataset, because a refresh without Prefect changes datasets too."""
PREFIX: Final = "kame: "
"""Prefix of the names of all automations of this project."""
_ENDS: Final = ("Completed", "Failed", "Crashed")
_FAILURES: Final = ("Failed", "Crashed")
_SUBJECT: Final = "{{ flow_run.name }}: {{ flow_run.state.name }}"
_PAYLOAD: Final = (
    '{{ {"text": flow_run.name ~ ": " ~ flow_run.state.name ~ " " ~ (flow_run.state.message or ""),'
    ' "run": flow_run.name, "state": flow_run.state.name, "message": flow_run.state.message or "", "url": %s}'
    " | tojson }}"
)
_OWN_FLOWS: Final[dict[str, str | list[str]]] = {
    "prefect.resource.role": "flow",
    "prefect.resource.name": list(KINDS),
}


def _make_resource_id(dataset: str) -> str:
    """Returns the id of a dataset in Prefect's events, which contains its absolute path."""
    return f"kame.dataset.{Path(dataset).resolve()}"


def emit_if_changed(out: str, manifest: Manifest) -> bool:
    """Emits an event to Prefect if the content of a dataset differs from that of the last event, or there was none.

    The content is then recorded in the dataset as `LAST_EVENT`. Without `PREFECT_API_URL` nothing is emitted or
    recorded, because a temporary server has no automations.

    Args:
        out: folder of the dataset.

    Returns:
        Whether an event was emitted.

    Raises:
        httpx.HTTPError: the server did not take the event.
    """
    store = Store(out)
    if PREFECT_API_URL.value() is None:
        return False
    if store.exists(LAST_EVENT) and json.loads(store.read_bytes(LAST_EVENT))["fingerprint"] == manifest.fingerprint:
        return False
    resource = {"prefect.resource.id": _make_resource_id(out), "prefect.resource.name": Path(out).resolve().name}
    event = Event(
        event=DATASET_CHANGED,
        resource=Resource(resource),
        payload={
            "fingerprint": manifest.fingerprint,
            "short": manifest.fingerprint[:8],
            "dialogues": manifest.counts.dialogues,
        },
    )
    with get_client(sync_client=True) as client:  # `emit_event` only queues it, and does not say whether it was sent
        client.request("POST", "/events", json=[event.model_dump(mode="json")])
    mark_as_emitted(out, manifest)
    return True


def mark_as_emitted(out: str, manifest: Manifest) -> None:
    """Records the fingerprint of a manifest in the dataset as `LAST_EVENT`, without emitting an event."""
    Store(out).write_bytes(LAST_EVENT, json.dumps({"fingerprint": manifest.fingerprint}).encode())


def train_after_refresh(client: SyncPrefectClient, dataset: str, settings: Mapping[str, Any]) -> str:
    """Adds an automation that starts a training whenever a refresh has changed a dataset, and returns its name.

    It replaces an earlier one of the same dataset. The dataset's current content starts no training: it is recorded in
    the dataset as `LAST_EVENT`.

    Args:
        settings: settings of the training; `datasets` is set to the dataset. The first 8 digits of its fingerprint are
            appended to `out`, so that each content is trained on in its own folder.

    Raises:
        ConfigError: the server has no deployment of trainings.
    """
    try:
        deployment = client.read_deployment_by_name("train/train")
    except ObjectNotFound as error:
        raise ConfigError(
            "Prefect has no deployment train/train.", "Start `kame up`, or run: prefect --no-prompt deploy --all"
        ) from error
    store = Store(dataset)
    if store.exists(MANIFEST):
        mark_as_emitted(dataset, Manifest.model_validate_json(store.read_bytes(MANIFEST)))
    out = settings.get("out", "run")
    template = {"__prefect_kind": "jinja", "template": f"{out}-{{{{ event.payload.short }}}}"}
    config = {**settings, "datasets": [str(Path(dataset).resolve())], "out": template}
    name = f"{PREFIX}train on {Path(dataset).resolve()} when it has changed"
    return _put_automation(
        client,
        name,
        "A refresh found new items, or made some again.",
        EventTrigger(
            expect={DATASET_CHANGED},
            match=ResourceSpecification({"prefect.resource.id": _make_resource_id(dataset)}),
            posture=Posture.Reactive,
            threshold=1,
        ),
        RunDeployment(
            source="selected", deployment_id=deployment.id, parameters={"config": config}, job_variables=None
        ),
    )


def notify_by_webhook(client: SyncPrefectClient, url: str, only_failures: bool = False, pages: str = "") -> str:
    """Adds an automation that posts JSON to a webhook whenever a run of this project has ended, and returns its name.

    It replaces an earlier webhook. Cancelled runs are not reported.

    Args:
        url: URL of the webhook; stored encrypted in a Prefect block.
        only_failures: whether completed runs are excluded.
        pages: URL of the dashboard, for a link to the run; empty if there is to be none.
    """
    headers = {"Content-Type": "application/json"}
    block = _save_block(client, Webhook.model_validate({"url": url, "headers": headers}), "kame-webhook")
    link = json.dumps(f"{pages.rstrip('/')}/runs/") + " ~ flow_run.id" if pages else '""'
    payload = _PAYLOAD % link
    action = CallWebhook(block_document_id=block, payload=payload)
    return _put_notification(client, "webhook", action, only_failures)


def notify_by_email(client: SyncPrefectClient, url: str, only_failures: bool = False, pages: str = "") -> str:
    """Adds an automation that sends an e-mail whenever a run of this project has ended, and returns its name.

    It replaces an earlier address. Cancelled runs are not reported. Prefect has no block for SMTP, but its block for
    Slack passes any address that is not Slack's to Apprise, which sends e-mail.

    Args:
        url: Apprise URL of a mail server, mailtos://USER:PASSWORD@HOST?from=ADDRESS&to=ADDRESS.
        only_failures, pages: as in `notify_by_webhook`.

    Raises:
        ConfigError: the URL is not of this form.
    """
    if not url.startswith(("mailto://", "mailtos://")):
        raise ConfigError(
            "The address for e-mail does not begin with mailto:// or mailtos://.",
            "Write it as mailtos://USER:PASSWORD@smtp.example.org?from=kame@example.org&to=team@example.org.",
        )
    block = _save_block(client, SlackWebhook(url=SecretStr(url)), "kame-email")
    link = f"{pages.rstrip('/')}/runs/{{{{ flow_run.id }}}}" if pages else ""
    body = f"{_SUBJECT}\n{{{{ flow_run.state.message or '' }}}}\n{link}"
    return _put_notification(
        client, "e-mail", SendNotification(block_document_id=block, subject=_SUBJECT, body=body), only_failures
    )


def list_automations(client: SyncPrefectClient) -> list[Automation]:
    """Returns all automations of this project, sorted by name."""
    found = [each for each in client.read_automations() if each.name.startswith(PREFIX)]
    return sorted(found, key=lambda each: each.name)


def remove_automation(client: SyncPrefectClient, name: str) -> None:
    """Removes an automation of this project and its stored address.

    Raises:
        ConfigError: there is no automation of that name.
    """
    found = [each for each in list_automations(client) if each.name == name]
    if not found:
        raise ConfigError(f"There is no automation {name!r}.", "`kame automation list` shows them.")
    for each in found:
        client.delete_automation(each.id)
        for action in each.actions:
            if isinstance(action, CallWebhook | SendNotification):
                client.delete_block_document(action.block_document_id)


def _save_block(client: SyncPrefectClient, block: Block, name: str) -> Any:
    """Saves a block on the server, replacing one of the same name, and returns its id."""
    with temporary_settings({PREFECT_API_URL: str(client.api_url).rstrip("/")}):  # blocks ask for no client
        return block.save(name, overwrite=True)


def _put_notification(client: SyncPrefectClient, way: str, action: ActionTypes, only_failures: bool) -> str:
    """Creates an automation that runs an action whenever a run of this project has ended, and returns its name.

    Its name contains `way`; an earlier one of that name is deleted.
    """
    ends = _FAILURES if only_failures else _ENDS
    return _put_automation(
        client,
        f"{PREFIX}tell by {way} how runs ended",
        f"Of runs that are {', '.join(ends)}.",
        EventTrigger(
            expect={f"prefect.flow-run.{end}" for end in ends},
            match=ResourceSpecification({"prefect.resource.id": "prefect.flow-run.*"}),
            match_related=ResourceSpecification(_OWN_FLOWS),
            posture=Posture.Reactive,
            threshold=1,
        ),
        action,
    )


def _put_automation(
    client: SyncPrefectClient, name: str, description: str, trigger: EventTrigger, *actions: ActionTypes
) -> str:
    """Creates an automation, deletes earlier ones of the same name, and returns the name."""
    made = AutomationCore(name=name, description=description, trigger=trigger, actions=list[ActionTypes](actions))
    before: Sequence[Automation] = client.read_automations_by_name(name)
    client.create_automation(made)
    for each in before:
        client.delete_automation(each.id)
    return name
