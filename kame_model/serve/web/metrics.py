"""Prometheus metrics of `/metrics`: sessions, step times, events, dropped frames, denied requests, token usage."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import get_args

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from data_schemas.config.serving import Mode
from data_schemas.units import FRAME_S
from kame_model.serve.server import KameServer
from kame_model.serve.session.events import EventKind

_AGES_S = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)


class Metrics(Collector):
    """The metrics of one server, in a registry of their own so that several servers in one process do not add up.

    Args:
        more: further collectors.

    Attributes:
        n_denied: requests, callers and messages that were denied, by code, including the server's own refusals.
        oracle_age_s: ages of oracles at their first words.
    """

    def __init__(self, server: KameServer, *more: Collector) -> None:
        self.n_denied: Counter[str] = Counter()
        self._server = server
        self._registry = CollectorRegistry()
        for collector in (self, *more):
            self._registry.register(collector)
        ProcessCollector(registry=self._registry)
        self.oracle_age_s = Histogram(
            "kame_oracle_first_words_seconds",
            "From a request to a chat model to the first words of its answer.",
            buckets=_AGES_S,
            registry=self._registry,
        )

    def format_text(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yields the server's own metrics as they are now: sessions, steps, requests, events, drops, denials."""
        server, meter, now_s = self._server, self._server.meter, asyncio.get_running_loop().time()
        modes = Counter(session.mode for session in server.sessions.values())
        sessions = GaugeMetricFamily("kame_sessions", "Sessions now.", labels=["mode"])
        for mode in get_args(Mode):
            sessions.add_metric([mode], modes[mode])
        yield sessions
        yield GaugeMetricFamily("kame_slots", "Maximum number of sessions at once.", value=server.n_slots)
        yield GaugeMetricFamily(
            "kame_ready",
            "1 if one more caller would be admitted and served in real time.",
            value=float(server.is_ready),
        )
        yield GaugeMetricFamily("kame_frame_seconds", "Length of a frame: no step may take longer.", value=FRAME_S)
        for name, what, value in (
            ("kame_step_seconds", "Time of a step of all sessions, over the last 30 s.", meter.compute_step_s),
            ("kame_step_late_seconds", "How late steps began, over the last 30 s.", meter.compute_late_s),
        ):
            gauge = GaugeMetricFamily(name, what, labels=["quantile"])
            for percentile in (50, 99):
                gauge.add_metric([str(percentile / 100)], value(percentile, now_s))
            yield gauge
        yield CounterMetricFamily("kame_steps", "Steps of the device.", value=meter.n_steps)
        yield CounterMetricFamily("kame_steps_late", "Steps that began a frame or more late.", value=meter.n_late)
        yield CounterMetricFamily("kame_steps_failed", "Steps that ended their sessions.", value=meter.n_failed)
        yield from _collect_requests(server)
        yield _make_counter("kame_events", "Events of sessions.", "kind", server.n_events)
        yield _make_counter("kame_frames_dropped", "Dropped frames: heard or said.", "direction", server.n_dropped)
        yield _make_counter("kame_denied", "Denied requests, callers and messages.", "code", self.n_denied)


def _collect_requests(server: KameServer) -> Iterator[Metric]:
    """Yields metrics of requests to chat models: their number by outcome, and their tokens by back-end and kind."""
    requests = asdict(server.requests)
    outcomes = {name.removeprefix("n_"): n for name, n in requests.items()}
    yield _make_counter("kame_requests", "Requests to chat models, by outcome.", "outcome", outcomes)
    tokens = CounterMetricFamily(
        "kame_chat_tokens",
        "Tokens read (in, of them cached) and written (out) by chat models; estimated if a server reports none.",
        labels=["back_end", "kind"],
    )
    for back_end, usage in server.get_usage().items():
        for kind in ("in", "cached", "out"):
            tokens.add_metric([back_end, kind], getattr(usage, f"n_tokens_{kind}"))
    yield tokens


def _make_counter(name: str, what: str, label: str, counts: Mapping[EventKind, int] | Mapping[str, int]) -> Metric:
    """Returns a metric with one sample for each of `counts`, whose key is the value of `label`."""
    metric = CounterMetricFamily(name, what, labels=[label])
    for value, count in sorted(counts.items()):
        metric.add_metric([value], count)
    return metric
