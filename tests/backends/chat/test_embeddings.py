"""Texts as vectors over HTTP: order, length, batches, and one message for whatever goes wrong."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from backends.chat import embeddings
from backends.chat.embeddings import EmbeddingModel
from data_schemas.errors import BackendError, ConfigError
from tests.support.embedding_server import EmbeddingServer, counted, embedding_server

pytestmark = pytest.mark.full

TEXTS = [f"There are {n} of the {n} red boats." for n in range(7)]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as running:
        yield running


def test_vectors_are_of_length_one_and_in_the_order_of_the_texts(server: EmbeddingServer) -> None:
    vectors = EmbeddingModel(server.url, "counts").embed(TEXTS)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(TEXTS)))
    alone = [EmbeddingModel(server.url, "counts").embed([text])[0] for text in TEXTS]
    assert vectors == pytest.approx(np.array(alone))
    assert {body["model"] for body in server.asked} == {"counts"}


def test_many_texts_are_asked_in_portions_and_none_not_at_all(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "N_A_REQUEST", 3)
    assert EmbeddingModel(server.url, "counts").embed([]).shape == (0, 0)
    assert len(EmbeddingModel(server.url, "counts").embed(TEXTS)) == len(TEXTS)
    assert [len(body["input"]) for body in server.asked] == [3, 3, 1]
    assert server.texts == TEXTS


def test_a_text_without_a_direction_is_like_nothing(server: EmbeddingServer) -> None:
    server.answer = lambda texts: counted(["" for _ in texts])
    assert not EmbeddingModel(server.url, "counts").embed(TEXTS).any()


def test_a_server_that_is_busy_is_asked_again(server: EmbeddingServer) -> None:
    server.statuses = [503]
    assert len(EmbeddingModel(server.url, "counts").embed(TEXTS)) == len(TEXTS)


def test_the_key_is_sent_and_never_said(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAME_LLM_API_KEY", "sk-mine")
    server.statuses = [401]
    with pytest.raises(BackendError, match="refuses our key") as caught:
        EmbeddingModel(server.url, "counts").embed(TEXTS)
    assert server.keys == ["Bearer sk-mine"]
    assert "sk-mine" not in str(caught.value)


def without_one(texts: list[str]) -> dict[str, Any]:
    return counted(texts[:-1])


def of_two_lengths(texts: list[str]) -> dict[str, Any]:
    told = counted(texts)
    told["data"][0]["embedding"] = [1.0]
    return told


@pytest.mark.parametrize("answer", [without_one, of_two_lengths, lambda _: {"data": None}, lambda _: {"data": [{}]}])
def test_an_answer_that_is_none_is_refused(server: EmbeddingServer, answer: Any) -> None:
    server.answer = answer
    with pytest.raises(BackendError, match=r"gives no embeddings by 'counts'.*started for embeddings"):
        EmbeddingModel(server.url, "counts").embed(TEXTS)


def test_a_server_without_embeddings_or_that_is_not_there_is_told(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "N_RETRIES", 0)
    server.statuses = [404, 501]
    for url, told in ((server.url, "404"), (server.url, "501"), ("http://127.0.0.1:9/v1", "no connection")):
        with pytest.raises(BackendError, match=told):
            EmbeddingModel(url, "counts").embed(TEXTS)


@pytest.mark.parametrize("url", ["", "127.0.0.1:9/v1", "ftp://me:secret@127.0.0.1/v1", "http://[::1/v1"])
def test_an_invalid_url_is_told(url: str) -> None:
    with pytest.raises(ConfigError, match=r"embedding model is invalid: base_url: .*--embeddings-url") as told:
        EmbeddingModel(url, "counts")
    assert "secret" not in str(told.value)
