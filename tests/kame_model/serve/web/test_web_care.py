"""Who is let in: by token, origin and address."""

import pytest
from starlette.requests import HTTPConnection

from data_schemas.config.serving import CareConfig
from data_schemas.errors import ConfigError
from kame_model.serve.web.care import Denied, Door, chosen_protocol, notice_headers

TOKEN = {"KAME_SERVE_TOKEN": "s3cret"}


def connection(query: str = "", end: str | None = "192.0.2.7", **headers: str) -> HTTPConnection:
    """A connection as ASGI has it; `_` in a header's name stands for `-`."""
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    client = None if end is None else (end, 5000)
    return HTTPConnection({"type": "http", "headers": raw, "query_string": query.encode(), "client": client})


@pytest.mark.parametrize(
    "shown",
    [
        connection(authorization="Bearer s3cret"),
        connection(authorization="bearer  s3cret "),
        connection("token=s3cret"),
        connection(sec_websocket_protocol="realtime, openai-insecure-api-key.s3cret"),
    ],
)
def test_the_token_lets_in_wherever_it_is_shown(shown: HTTPConnection) -> None:
    Door(CareConfig(), TOKEN).check(shown)


@pytest.mark.parametrize(
    "shown",
    [
        connection(),
        connection(authorization="Basic s3cret"),
        connection(authorization="Bearer s3cre"),
        connection("token=s3cret1"),
        connection("token="),
        connection("token=%ff%fe"),
        connection(authorization="Bearer \u00e9"),
    ],
)
def test_without_the_token_nobody_comes_in(shown: HTTPConnection) -> None:
    with pytest.raises(Denied) as denied:
        Door(CareConfig(), TOKEN).check(shown)
    assert denied.value.status == 401
    assert denied.value.response().headers["www-authenticate"] == "Bearer"


def test_where_no_token_is_set_nobody_needs_one_but_an_empty_one_is_a_mistake() -> None:
    door = Door(CareConfig(), {})
    door.check(connection())
    assert not door.needs_token
    with pytest.raises(ConfigError, match="set and empty"):
        Door(CareConfig(), {"KAME_SERVE_TOKEN": " "})


@pytest.mark.parametrize(
    ("origins", "origin", "host", "may"),
    [
        ([], None, "kame.example", True),
        ([], "https://kame.example", "kame.example", True),
        ([], "http://kame.example:8998", "kame.example:8998", True),
        ([], "http://[::1]:8998", "[::1]:8998", True),
        ([], "https://evil.example", "kame.example", False),
        ([], "http://kame.example:81", "kame.example:8998", False),
        ([], "null", "kame.example", False),
        ([], "http://[", "kame.example", False),
        (["https://talk.example/"], "https://TALK.example", "kame.example", True),
        (["https://talk.example"], "https://kame.example", "kame.example", False),
        (["*"], "https://evil.example", "kame.example", True),
    ],
)
def test_pages_of_other_origins_are_kept_out(origins: list[str], origin: str | None, host: str, may: bool) -> None:
    door = Door(CareConfig(origins=origins, hosts=["kame.example"]), {})
    shown = connection(host=host) if origin is None else connection(host=host, origin=origin)
    if may:
        door.check(shown)
    else:
        with pytest.raises(Denied) as denied:
            door.check(shown)
        assert denied.value.status == 403


@pytest.mark.parametrize(
    ("end", "forwarded", "address"),
    [
        ("192.0.2.7", "198.51.100.1", "192.0.2.7"),  # nobody's proxy: what it says is not believed
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "198.51.100.9, 198.51.100.1, 10.9.9.9", "198.51.100.1"),  # the first is the caller's own invention
        ("10.0.0.1", "198.51.100.1:4711", "198.51.100.1"),
        ("10.0.0.1", "[2001:db8:0:7::1]:4711", "2001:db8:0:7::/64"),
        ("10.0.0.1", "unknown", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("::ffff:192.0.2.7", "", "192.0.2.7"),
        (None, "198.51.100.1", "unknown"),
    ],
)
def test_the_address_is_the_nearest_hop_that_no_trusted_proxy_is(end: str, forwarded: str, address: str) -> None:
    door = Door(CareConfig(trusted_proxies=["10.0.0.0/8"]), {})
    assert door.address_of(connection(end=end, x_forwarded_for=forwarded)) == address


def test_one_ipv6_customer_is_one_caller_whatever_addresses_it_takes() -> None:
    door = Door(CareConfig(), {})
    ends = ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:3::1", "::1", "fe80::1%eth0")
    addresses = [door.address_of(connection(end=end)) for end in ends]
    assert addresses[0] == addresses[1] == "2001:db8:1:2::/64"
    assert len(set(addresses)) == 4


REBOUND = "http://evil.example:8998"
"""A page whose own name was led to this server: its origin is what it calls the server."""


@pytest.mark.parametrize(
    ("care", "listens_at", "host", "may"),
    [
        ({}, "127.0.0.1", "evil.example:8998", False),
        ({}, "127.0.0.1", "", False),
        ({}, "127.0.0.1", "127.0.0.1.evil.example", False),
        ({}, "127.0.0.1", "localhost.evil.example", False),
        ({}, "127.0.0.1", "127.0.0.1:8998", True),
        ({}, "0.0.0.0", "192.0.2.7", True),
        ({}, "::", "[2001:db8::1]:8998", True),
        ({}, "127.0.0.1", "LOCALHOST:8998", True),
        ({}, "kame.example", "kame.example.:8998", True),
        ({"hosts": ["Talk.Example"]}, "127.0.0.1", "talk.example", True),
        ({"hosts": ["talk.example"]}, "127.0.0.1", "evil.example", False),
        ({"hosts": ["*"]}, "127.0.0.1", "evil.example", True),
    ],
)
def test_by_a_name_that_is_not_the_servers_nobody_comes_in(
    care: dict[str, list[str]], listens_at: str, host: str, may: bool
) -> None:
    door = Door(CareConfig.model_validate(care), {}, listens_at)
    if may:
        door.check(connection(host=host, origin=f"http://{host}"))
    else:
        with pytest.raises(Denied) as denied:
            door.check(connection(host=host, origin=f"http://{host}"))
        assert denied.value.status == 421


def test_where_origins_are_listed_a_page_of_another_name_is_kept_out_by_them() -> None:
    door = Door(CareConfig(origins=["https://talk.example"]), {})
    door.check(connection(host="whatever.example", origin="https://talk.example"))
    with pytest.raises(Denied) as denied:
        door.check(connection(host="evil.example:8998", origin=REBOUND))
    assert denied.value.status == 403


def test_a_proxy_without_an_address_is_told() -> None:
    with pytest.raises(ConfigError, match="trusted_proxies"):
        Door(CareConfig(trusted_proxies=["nginx"]), {})


def test_the_notice_fits_into_a_header_whatever_it_says() -> None:
    assert notice_headers("A machine\r\nspeaks.") == [("Kame-Notice", "A machine speaks.")]
    assert notice_headers("機械") == [("Kame-Notice", "%E6%A9%9F%E6%A2%B0")]
    assert notice_headers("  ") == []


def test_a_token_among_the_subprotocols_is_not_sent_back() -> None:
    assert chosen_protocol(connection(sec_websocket_protocol="openai-insecure-api-key.x, realtime")) == "realtime"
    assert chosen_protocol(connection(sec_websocket_protocol="openai-insecure-api-key.x")) is None
