"""Exceptions of this project: what happened, to which item, and what to do about it.

Exceptions of libraries (onnxruntime, openai, pyarrow, OSError…) are converted to these where the library is called.
Each class has the exit code that `kame` returns.
"""


class KameError(Exception):
    """Base class of all errors that a user can resolve.

    Args:
        what: what happened, in one sentence, naming the item, file or service.
        remedy: what the user can do about it, in one sentence; may be empty.
        status: a server's failure for logs, which never hold text of servers: an HTTP status, `timeout`, ...
    """

    exit_code = 1

    def __init__(self, what: str, remedy: str = "", status: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.status = status

    def __str__(self) -> str:
        return f"{self.what} {self.remedy}".strip()

    def __reduce__(self) -> tuple[type["KameError"], tuple[str, str, str]]:
        return type(self), (self.what, self.remedy, self.status)  # makes errors picklable between processes


class ConfigError(KameError):
    """A setting, an option or a combination of them is wrong."""

    exit_code = 2


class SourceError(KameError):
    """A question set as a whole cannot be read: it is missing, empty or truncated, or lacks columns."""

    exit_code = 3


class BackendError(KameError):
    """A back-end (speech, aligner, chat model, …) is missing, did not start, or stopped answering."""

    exit_code = 4


class StoreError(KameError):
    """A file of the store cannot be written, or does not match its record: disk full, checksum, schema."""

    exit_code = 5


class DatasetError(KameError):
    """A folder is not the dataset or training run that is needed: it lacks a file or data, or is of another version."""

    exit_code = 6


class RequestError(KameError):
    """A request to a chat model failed after all retries; the run continues and the event is marked as failed."""

    exit_code = 4


class AnswerCut(RequestError):
    """A streamed answer was cut off at the maximum number of tokens; the text so far is valid."""


class AnswerRefused(RequestError):
    """The chat model refused to answer, or its provider's content filter ended the answer before its first word.

    Do not retry: the same request would be refused again.
    """


class UnexpectedThought(RequestError):
    """A streamed answer contains reasoning although the model is not configured as a reasoning model (`chat.thinks`).

    The text received so far is reasoning and not an answer. Do not retry: the result would be the same.
    """


class BudgetError(KameError):
    """The budget of the run is spent; all answers are kept, and the same command resumes the run."""

    exit_code = 7


class TrainingError(KameError):
    """Training stopped because a loss or gradient is NaN or infinite; the last checkpoint is kept."""

    exit_code = 8
