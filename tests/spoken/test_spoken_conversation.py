"""How a conversation is told to a chat model, for training data and by the live server."""

from spoken.conversation import fill_request, format_history_line, to_messages


def test_a_request_has_a_line_for_each_turn_with_a_mark_where_it_was_not_said_to_its_end() -> None:
    assert format_history_line("User", "How far is it?", is_whole=True) == "User: How far is it?"
    assert format_history_line("Assistant", "It is very", is_whole=False) == "Assistant: It is very ..."
    form = "{history}User (unfinished): {heard} ...\n"
    assert fill_request(form, ["User: Hi.", "Assistant: Hello."], "how far") == (
        "User: Hi.\nAssistant: Hello.\nUser (unfinished): how far ..."
    )
    assert fill_request(form, [], "so {history} is") == "User (unfinished): so {history} is ..."


def test_examples_stand_between_the_system_text_and_the_request() -> None:
    assert to_messages(" Be brief.\n", [("How far?", "Far.\n")], "How big?") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How far?"},
        {"role": "assistant", "content": "Far."},
        {"role": "user", "content": "How big?"},
    ]
