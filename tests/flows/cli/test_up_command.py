"""`kame up`: who may tell its Prefect server to run something, and what its own token may start."""

from pathlib import Path

import httpx
import pytest

from tests.support.whole_machine import kame_up

pytestmark = pytest.mark.slow
ELSEWHERE = {"Origin": "https://evil.example"}


def test_pages_of_other_sites_start_nothing_and_its_own_token_does(tmp_path: Path) -> None:
    with kame_up(tmp_path) as parts:
        flows, asked = f"{parts['prefect']}/api/flows/", {"Access-Control-Request-Method": "POST"}
        assert httpx.options(flows, headers=ELSEWHERE | asked).status_code == 400
        own = httpx.options(flows, headers={"Origin": parts["prefect"]} | asked)
        assert own.headers["access-control-allow-origin"] == parts["prefect"]
        simple = httpx.post(flows, content=b'{"name": "theirs"}', headers=ELSEWHERE)  # a browser asks nothing before it
        assert simple.status_code == 403
        address, _, token = parts["dashboard"].partition("#token=")
        form = {"values": {"limit": "1", "chat.engine": "openai", "chat.base_url": "http://192.0.2.1/v1"}}
        started = httpx.post(f"{address}start/refresh", json=form, headers={"Authorization": f"Bearer {token}"})
        assert started.json()["url"].startswith("/runs/")
