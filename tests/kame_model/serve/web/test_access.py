"""Who is let in: by token, origin and address."""

import pytest
from starlette.requests import HTTPConnection

from data_schemas.config.serving import CareConfig
from data_schemas.errors import ConfigError
from kame_model.serve.web.access import WRONG_AT_ONCE, WRONG_EVERY_S, AccessControl, Denied, choose_protocol
from kame_model.serve.web.app import make_common_headers

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
    AccessControl(CareConfig(), TOKEN).check(shown)  # raises Denied where it does not let in


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
        AccessControl(CareConfig(), TOKEN).check(shown)
    assert denied.value.status == 401
    assert denied.value.make_response().headers["www-authenticate"] == "Bearer"


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
    access = AccessControl(CareConfig(trusted_proxies=["10.0.0.0/8"]), {})
    assert access.find_address(connection(end=end, x_forwarded_for=forwarded)) == address


def test_one_ipv6_customer_is_one_caller_whatever_addresses_it_takes() -> None:
    access = AccessControl(CareConfig(), {})
    ends = ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:3::1", "::1", "fe80::1%eth0")
    addresses = [access.find_address(connection(end=end)) for end in ends]
    assert addresses[0] == addresses[1] == "2001:db8:1:2::/64"
    assert len(set(addresses)) == 4


def test_the_notice_fits_into_a_header_whatever_it_says() -> None:
    assert make_common_headers(CareConfig(notice="A machine\r\nspeaks.")) == [("Kame-Notice", "A machine speaks.")]
    assert make_common_headers(CareConfig(notice="機械")) == [("Kame-Notice", "%E6%A9%9F%E6%A2%B0")]
    assert make_common_headers(CareConfig(notice="  ")) == []


def test_a_token_among_the_subprotocols_is_not_sent_back() -> None:
    assert choose_protocol(connection(sec_websocket_protocol="openai-insecure-api-key.x, realtime")) == "realtime"
    assert choose_protocol(connection(sec_websocket_protocol="openai-insecure-api-key.x")) is None


class Hand:
    """A clock that is set by hand."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def status(access: AccessControl, shown: HTTPConnection, *, of_metrics: bool = False) -> int:
    """What a connection is answered; 200: it is let in."""
    try:
        (access.check_metrics if of_metrics else access.check)(shown)
    except Denied as denied:
        return denied.status
    return 200


OURS = {"hosts": ["kame.example"]}
LISTED = {"origins": ["https://talk.example/"]}


@pytest.mark.parametrize(
    ("care", "host", "origin", "expected"),
    [
        (OURS, "kame.example", None, 200),
        (OURS, "kame.example", "https://kame.example", 200),
        (OURS, "kame.example:8998", "http://kame.example:8998", 200),
        (OURS, "[::1]:8998", "http://[::1]:8998", 200),
        (OURS, "kame.example", "https://evil.example", 403),
        (OURS, "kame.example:8998", "http://kame.example:81", 403),
        (OURS, "kame.example", "null", 403),
        (OURS, "kame.example", "http://[", 403),
        (OURS | LISTED, "kame.example", "https://TALK.example", 200),
        (OURS | LISTED, "kame.example", "https://kame.example", 403),
        (OURS | {"origins": ["*"]}, "kame.example", "https://evil.example", 200),
        (LISTED, "whatever.example", "https://talk.example", 200),
        (LISTED, "evil.example:8998", "http://evil.example:8998", 403),
    ],
)
def test_pages_of_other_origins_are_kept_out(
    care: dict[str, list[str]], host: str, origin: str | None, expected: int
) -> None:
    shown = connection(host=host) if origin is None else connection(host=host, origin=origin)
    assert status(AccessControl(CareConfig.model_validate(care), {}), shown) == expected


@pytest.mark.parametrize(
    ("hosts", "listens_at", "host", "expected"),
    [
        ([], "127.0.0.1", "evil.example:8998", 421),  # whose name was led to this server
        ([], "127.0.0.1", "", 421),
        ([], "127.0.0.1", "127.0.0.1.evil.example", 421),
        ([], "127.0.0.1", "localhost.evil.example", 421),
        ([], "127.0.0.1", "127.0.0.1:8998", 200),
        ([], "0.0.0.0", "192.0.2.7", 200),
        ([], "::", "[2001:db8::1]:8998", 200),
        ([], "127.0.0.1", "LOCALHOST:8998", 200),
        ([], "kame.example", "kame.example.:8998", 200),
        (["Talk.Example"], "127.0.0.1", "talk.example", 200),
        (["talk.example"], "127.0.0.1", "evil.example", 421),
        (["*"], "127.0.0.1", "evil.example", 200),
    ],
)
def test_by_another_name_nobody_comes_in(hosts: list[str], listens_at: str, host: str, expected: int) -> None:
    access = AccessControl(CareConfig(hosts=hosts), {}, listens_at)
    assert status(access, connection(host=host, origin=f"http://{host}")) == expected


WRONG, RIGHT = "Bearer guess", "Bearer s3cret"


def test_wrong_tokens_of_an_address_are_throttled_and_others_are_not() -> None:
    clock = Hand()
    access = AccessControl(CareConfig(), TOKEN, clock_s=clock)
    told = [status(access, connection(authorization=WRONG)) for _ in range(WRONG_AT_ONCE + 2)]
    assert told == [401] * WRONG_AT_ONCE + [429, 429]
    assert status(access, connection(authorization=RIGHT)) == 429, "or guessing would go on as fast as before"
    assert status(access, connection()) == 401, "who shows no token guesses nothing"
    assert status(access, connection(end="192.0.2.8", authorization=RIGHT)) == 200
    with pytest.raises(Denied) as denied:
        access.check(connection(authorization=WRONG))
    wait_s = int(denied.value.make_response().headers["retry-after"])
    assert wait_s == WRONG_EVERY_S
    clock.now_s += wait_s
    assert [status(access, connection(authorization=WRONG)) for _ in range(2)] == [401, 429]
    clock.now_s += wait_s
    assert [status(access, connection(authorization=RIGHT)) for _ in range(3)] == [200] * 3, "right ones cost nothing"
    clock.now_s += WRONG_AT_ONCE * WRONG_EVERY_S
    told = [status(access, connection(authorization=WRONG)) for _ in range(WRONG_AT_ONCE + 1)]
    assert told == [401] * WRONG_AT_ONCE + [429]


def test_each_token_of_a_request_counts_once_and_no_more_are_compared_than_may_be_shown() -> None:
    access = AccessControl(CareConfig(), TOKEN, clock_s=Hand())
    for _ in range(WRONG_AT_ONCE // 2):
        assert status(access, connection("token=one&token=one", authorization=WRONG)) == 401
    assert status(access, connection("token=guess")) == 429
    assert status(access, connection("token=")) == 401, "an empty one does not count"
    access = AccessControl(CareConfig(), TOKEN, clock_s=Hand())
    many = [f"token=guess{number}" for number in range(500)]
    assert status(access, connection("&".join([*many, "token=s3cret"]))) == 400
    many_protocols = ", ".join(f"openai-insecure-api-key.guess{number}" for number in range(500))
    assert status(access, connection("token=s3cret", sec_websocket_protocol=many_protocols)) == 400
    assert status(access, connection("token=guess", authorization=RIGHT)) == 200
    access = AccessControl(CareConfig(), TOKEN, clock_s=Hand())
    for _ in range(WRONG_AT_ONCE - 1):
        assert status(access, connection(authorization=WRONG)) == 401
    assert status(access, connection("token=guess", authorization=RIGHT)) == 429, "two are more than the one left"
    assert status(access, connection(authorization=RIGHT)) == 200


@pytest.mark.parametrize(
    ("origins", "headers", "expected"),
    [
        ([], {"sec_fetch_site": "cross-site"}, 403),
        (["https://talk.example"], {"sec_fetch_site": "cross-site"}, 403),
        (["https://talk.example"], {"sec_fetch_site": "cross-site", "origin": "https://talk.example"}, 401),
        (["*"], {"sec_fetch_site": "cross-site"}, 401),
        ([], {"sec_fetch_site": "same-origin"}, 401),
        ([], {"sec_fetch_site": "none"}, 401),
    ],
)
def test_a_page_of_another_site_shows_no_tokens_by_what_it_embeds(
    origins: list[str], headers: dict[str, str], expected: int
) -> None:
    access = AccessControl(CareConfig(origins=origins), TOKEN, clock_s=Hand())
    for of_metrics in (False, True):
        told = {status(access, connection("token=guess", **headers), of_metrics=of_metrics) for _ in range(50)}
        assert told == ({403} if expected == 403 else {401, 429})
        right = status(access, connection(authorization=RIGHT), of_metrics=of_metrics)
        assert right == (200 if expected == 403 else 429), "who is kept out before has shown none"


def test_wrong_tokens_for_the_figures_lock_no_caller_out_and_the_other_way_round() -> None:
    access = AccessControl(CareConfig(), TOKEN)
    for _ in range(WRONG_AT_ONCE):
        assert status(access, connection(authorization=WRONG), of_metrics=True) == 401
    assert status(access, connection(authorization=RIGHT), of_metrics=True) == 429
    assert status(access, connection(authorization=RIGHT)) == 200
    for _ in range(WRONG_AT_ONCE):
        assert status(access, connection(end="192.0.2.8", authorization=WRONG)) == 401
    assert status(access, connection(end="192.0.2.8", authorization=RIGHT), of_metrics=True) == 200


def test_wrong_tokens_count_for_the_caller_behind_a_trusted_proxy_and_for_nobody_he_names() -> None:
    access = AccessControl(CareConfig(trusted_proxies=["192.0.2.7"]), TOKEN, clock_s=Hand())
    for _ in range(WRONG_AT_ONCE):
        assert status(access, connection(authorization=WRONG, x_forwarded_for="198.51.100.1")) == 401
    assert status(access, connection(authorization=RIGHT, x_forwarded_for="198.51.100.1")) == 429
    assert status(access, connection(authorization=RIGHT, x_forwarded_for="198.51.100.2")) == 200
    for number in range(WRONG_AT_ONCE):  # not through the proxy: whatever it says of itself
        shown = connection(end="203.0.113.9", authorization=WRONG, x_forwarded_for=f"198.51.100.{10 + number}")
        assert status(access, shown) == 401
    shown = connection(end="203.0.113.9", authorization=RIGHT, x_forwarded_for="198.51.100.99")
    assert status(access, shown) == 429


@pytest.mark.parametrize(
    ("tokens", "opens", "opens_metrics"),
    [
        ({}, {"", "s3cret", "figures"}, {"", "s3cret", "figures"}),
        ({"KAME_SERVE_TOKEN": "s3cret"}, {"s3cret"}, {"s3cret"}),
        ({"KAME_METRICS_TOKEN": "figures"}, {"", "s3cret", "figures"}, {"figures"}),
        ({"KAME_SERVE_TOKEN": "s3cret", "KAME_METRICS_TOKEN": "figures"}, {"s3cret"}, {"figures"}),
    ],
)
def test_figures_may_have_their_own_token(tokens: dict[str, str], opens: set[str], opens_metrics: set[str]) -> None:
    access = AccessControl(CareConfig(), tokens)
    assert access.needs_token is ("KAME_SERVE_TOKEN" in tokens)
    for token in ("", "s3cret", "figures"):
        shown = connection(authorization=f"Bearer {token}") if token else connection()
        assert status(access, shown) == (200 if token in opens else 401)
        assert status(access, shown, of_metrics=True) == (200 if token in opens_metrics else 401)


def test_settings_that_keep_nobody_out_are_mistakes() -> None:
    for care, tokens, told in (
        (CareConfig(trusted_proxies=["nginx"]), {}, "trusted_proxies"),
        (CareConfig(), {"KAME_SERVE_TOKEN": " "}, "KAME_SERVE_TOKEN is set but empty"),
        (CareConfig(), {"KAME_METRICS_TOKEN": ""}, "KAME_METRICS_TOKEN is set but empty"),
    ):
        with pytest.raises(ConfigError, match=told):
            AccessControl(care, tokens)
