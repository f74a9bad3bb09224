"""How a Prefect server with a password is spoken to."""

import base64

import pytest
from prefect.settings import PREFECT_API_AUTH_STRING, temporary_settings

from flows.prefect_client import connect
from tests.support.http_servers import QuietHandler, http_server

pytestmark = pytest.mark.full


@pytest.mark.parametrize(
    ("secret", "sent"), [("kame:s", f"Basic {base64.b64encode(b'kame:s').decode()}"), (None, None)]
)
def test_the_password_of_the_environment_is_sent(secret: str | None, sent: str | None) -> None:
    seen = []

    class Handler(QuietHandler):
        def got(self) -> None:
            seen.append(self.headers["Authorization"])
            self.answer(200, b"true")

    with http_server(Handler) as url, temporary_settings({PREFECT_API_AUTH_STRING: secret}):
        assert connect(f"{url}/api").api_healthcheck() is None
    assert seen == [sent]
