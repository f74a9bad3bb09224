"""Text embeddings from any server with OpenAI's `/embeddings`: vLLM, llama.cpp, Ollama, OpenAI and others."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from backends.chat.connection import open_sync
from backends.chat.faults import FaultTranslator
from backends.chat.protocol import Endpoint
from backends.chat.providers import get_key_env, get_provider, make_full_url, read_api_key
from data_schemas.config import ChatConfig
from data_schemas.config.base import describe_faults
from data_schemas.errors import BackendError, ConfigError

N_A_REQUEST = 64
"""Texts per request; servers accept some hundreds, and this saves a small server's memory."""
N_RETRIES = 4


class EmbeddingModel:
    """An embedding model at a base URL (with /v1). The API key is that of a chat model, from the environment.

    Raises:
        ConfigError: the base URL is invalid.
    """

    def __init__(self, base_url: str, model: str) -> None:
        try:
            self._config = ChatConfig(engine="openai", base_url=base_url, model=model)
        except ValidationError as error:  # the URL is not quoted: it may contain a password
            raise ConfigError(
                f"The address of the embedding model is invalid: {describe_faults(error)}.",
                "Correct --embeddings-url, which ends in /v1.",
            ) from error
        self.base_url = base_url
        self.model = model

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns unit vectors of texts, [n_texts, n_dimensions], in order; [0, 0] without texts.

        A vector of zeros, which has no direction, stays one of zeros.

        Raises:
            BackendError: the server is unreachable, rejects us, has no embeddings, or returns a wrong number of
                vectors or vectors of different lengths.
        """
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        rows: list[Sequence[float]] = []
        try:
            for start in range(0, len(texts), N_A_REQUEST):
                rows += self._request_vectors(texts[start : start + N_A_REQUEST])
        except (ValueError, TypeError, AttributeError) as error:
            raise self._make_error(f"an answer that cannot be read ({type(error).__name__})") from error
        if len(rows) != len(texts) or len({len(row) for row in rows}) > 1:
            raise self._make_error(f"{len(rows)} vectors for {len(texts)} texts, or of different lengths")
        vectors = np.array(rows, dtype=np.float32).reshape(len(texts), -1)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.where(lengths > 0, lengths, 1)
        return vectors

    def _request_vectors(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """Requests the vectors of texts and returns them in the order of the texts, neither checked nor normalised.

        Raises:
            BackendError: the request failed.
            ValueError, TypeError, AttributeError: the answer cannot be read.
        """
        import openai

        config, provider, key = self._config, get_provider(self._config), read_api_key(self._config)
        endpoint = Endpoint(self.base_url, self.base_url, self.model, "")
        url = make_full_url(self.base_url, provider, self.model)
        try:
            with open_sync(url, key, config.timeout_s, provider) as opened:
                server = opened.with_options(max_retries=N_RETRIES)
                answer = server.embeddings.create(input=list(texts), model=self.model, encoding_format="float")
        except openai.APIError as error:
            faults = FaultTranslator(endpoint, key, get_key_env(config), config.max_wait_s)
            fault = faults.translate(error, "for embeddings")
            if not isinstance(fault, BackendError):
                fault = self._make_error(str(fault))
            raise fault from None  # its text may quote the key
        return [each.embedding for each in sorted(answer.data, key=lambda each: each.index)]

    def _make_error(self, why: str) -> BackendError:
        return BackendError(
            f"{self.base_url} gives no embeddings by {self.model!r}: {why}.",
            "Check the URL (it ends in /v1) and that the server was started for embeddings.",
        )
