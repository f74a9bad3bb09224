"""A streamed oracle's tokens are those of training, and an older oracle says nothing after a newer one."""

import random
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.chat.thoughts import ThoughtStream, split_thought
from data_schemas.config import OracleConfig
from kame_model.frames.ids import PADDING_ID
from kame_model.frames.oracle_stream import OracleQueue
from kame_model.serve.oracle.writer import OracleWriter
from kame_model.text.tokenizer import Tokenizer
from pipelines.oracle.validate import AnswerContext, Unusable, check_answer
from spoken.chat_answers import speak_answer
from spoken.first_paragraph import strip_paragraph
from spoken.oracle_text import OracleTextFilter
from tests.support.answers import drawn_answer, for_the_eye, pieces_of
from tests.support.vocabularies import make_moshi_like, make_vocabulary

pytestmark = pytest.mark.full

MAX_WORDS = OracleConfig().max_words


@pytest.fixture(scope="module", params=["ours", "as Moshi's"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    make = make_vocabulary if request.param == "ours" else make_moshi_like
    return make(tmp_path_factory.mktemp("vocabulary"))


def trained_on(answer: str, *, is_cut: bool = False) -> str:
    """What training makes of an answer, as a writer of oracles that knows no hint is held to."""
    asked = AnswerContext(level=0, hint="", instruction="", conversation="")
    return check_answer(answer, is_cut, asked, OracleConfig(min_words=1))


def written(pieces: Iterable[str], tokenizer: Tokenizer) -> tuple[list[int], str]:
    """The ids that an answer puts into a queue while it comes in pieces, and the words it is told to have put there."""
    queue = OracleQueue(tokenizer.text_card)
    writer = OracleWriter(queue, tokenizer, MAX_WORDS)
    words = []
    for piece in pieces:
        words.append(writer.write(piece))
        if writer.is_whole:
            break
    words.append(writer.finish())
    ids = queued(queue, writer.n_tokens + 2)
    assert ids[-1] == PADDING_ID
    return ids[:-1], " ".join(filter(None, words))


def queued(queue: OracleQueue, n: int) -> list[int]:
    return [queue.pop() for _ in range(n)]


@pytest.mark.parametrize(
    ("tokenizer", "n_wanted"),
    [("ours", 200), pytest.param("ours", 1000, marks=pytest.mark.slow), ("as Moshi's", 100)],
    indirect=["tokenizer"],
)
def test_tokens_of_answers_in_random_pieces_are_those_of_training(tokenizer: Tokenizer, n_wanted: int) -> None:
    draw = random.Random(7)
    n_answers = n_shortened = 0
    reasons: Counter[str] = Counter()
    while n_answers < n_wanted:
        answer = drawn_answer(draw)
        try:
            said = trained_on(answer)
        except Unusable as refused:  # training does not have it
            reasons[refused.reason] += 1
            continue
        n_answers += 1
        n_shortened += said != " ".join(map(str, speak_answer(answer)))
        ids, words = written(pieces_of(answer, draw), tokenizer)
        assert ids == [tokenizer.text_card, *tokenizer.encode(said)], answer
        assert words == said
    assert n_shortened > n_wanted / 10
    assert reasons.total() < n_wanted / 4, reasons


@pytest.mark.parametrize("tokenizer", ["ours"], indirect=True)
def test_tokens_are_those_of_training_with_thoughts_before_and_marks_for_the_eye_within(tokenizer: Tokenizer) -> None:
    draw = random.Random(8)
    n_answers = 0
    while n_answers < 300:
        answer = for_the_eye(drawn_answer(draw), draw)
        is_bare = draw.random() < 0.3
        begin = "" if is_bare else draw.choice(["", "<think>\n"])
        thought = f"{begin}{drawn_answer(draw)} *Hm* 😊\n</think>\n\n" if is_bare or begin else ""
        try:
            said = trained_on(split_thought(thought + answer)[1])
        except Unusable:
            continue
        if not all(isinstance(each, str) for each in speak_answer(strip_paragraph(answer))):
            continue  # what has left of a sentence that cannot be said stands
        n_answers += 1
        stream = ThoughtStream(is_expected=is_bare or draw.random() < 0.3)
        pieces = [stream.feed(piece) for piece in pieces_of(thought + answer, draw)]
        ids, words = written(filter(None, [*pieces, stream.finish(is_cut=False)]), tokenizer)
        assert ids == [tokenizer.text_card, *tokenizer.encode(said)], answer
        assert words == said


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), share=st.floats(0.2, 1))
def test_of_an_answer_that_was_cut_only_what_training_keeps_is_written(seed: int, share: float) -> None:
    draw = random.Random(seed)
    answer = drawn_answer(draw)
    answer = answer[: max(1, int(share * len(answer)))]
    stream, words = OracleTextFilter(MAX_WORDS), ""
    try:
        said = trained_on(answer, is_cut=True)
    except Unusable:
        return
    for word in " ".join(each for each in speak_answer(answer) if isinstance(each, str)).split():
        words += stream.add_words(word)
    assert (words + stream.finish(is_cut=True)).split() == said.split()


def test_the_newer_oracle_ends_the_older_and_an_unbegun_one_ends_nothing(tokenizer: Tokenizer) -> None:
    queue = OracleQueue(tokenizer.text_card)
    older, newer = (OracleWriter(queue, tokenizer, MAX_WORDS) for _ in range(2))
    assert older.write("she earned it all ") == "she earned it"
    queue.pop()
    newer.write("the")
    assert queue.pop() == tokenizer.encode("she")[0], "the newer has said nothing yet"
    assert newer.write(" tank is full") == "the tank"
    assert queue.pop() == tokenizer.text_card
    assert (older.write("because of minutes "), older.finish()) == ("", "")
    tokens = tokenizer.encode("the tank")
    assert queued(queue, len(tokens) + 1) == [*tokens, PADDING_ID]


@pytest.mark.parametrize("end", ["\n", " User: "])
def test_an_answer_is_whole_with_its_line_or_where_it_speaks_for_somebody_else(tokenizer: Tokenizer, end: str) -> None:
    writer = OracleWriter(OracleQueue(tokenizer.text_card), tokenizer, MAX_WORDS)
    writer.write("\nAssistant: the tank is")
    assert not writer.is_whole
    writer.write(f" full{end}she earned it")
    assert writer.is_whole


def test_a_reset_queue_takes_no_word_of_before(tokenizer: Tokenizer) -> None:
    queue = OracleQueue(tokenizer.text_card)
    writer = OracleWriter(queue, tokenizer, MAX_WORDS)
    writer.write("she earned it all ")
    queue.reset()
    assert (writer.write("because of minutes "), writer.finish()) == ("", "")
    assert queued(queue, 5) == [PADDING_ID] * 5
