"""Client of a Prefect server, with authentication."""

from prefect.client.orchestration import SyncPrefectClient
from prefect.settings import get_current_settings

TIMEOUT_S = 30.0


def connect(api_url: str, timeout_s: float = TIMEOUT_S) -> SyncPrefectClient:
    """Returns a client of a Prefect server.

    Args:
        api_url: URL of its API, as in `PREFECT_API_URL`; user and password are read from `PREFECT_API_AUTH_STRING`.
        timeout_s: timeout of a request, in seconds.
    """
    auth = get_current_settings().api.auth_string
    secret = None if auth is None else auth.get_secret_value()
    return SyncPrefectClient(api_url, auth_string=secret, httpx_settings={"timeout": timeout_s})
