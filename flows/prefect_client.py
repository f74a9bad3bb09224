"""How we reach a Prefect server, with the password that it asks for."""

from prefect.client.orchestration import SyncPrefectClient
from prefect.settings import get_current_settings

TIMEOUT_S = 30.0


def connect(api_url: str, timeout_s: float = TIMEOUT_S) -> SyncPrefectClient:
    """A client of a server.

    Args:
        api_url: address of its API, as in `PREFECT_API_URL`; its user and password come from `PREFECT_API_AUTH_STRING`.
        timeout_s: an answer may take so long.
    """
    auth = get_current_settings().api.auth_string
    secret = None if auth is None else auth.get_secret_value()
    return SyncPrefectClient(api_url, auth_string=secret, httpx_settings={"timeout": timeout_s})
