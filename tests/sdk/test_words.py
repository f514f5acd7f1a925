"""How a text is cut into words."""

from collapsewatch.words import words_of


def test_one_letter_words_numbers_and_signs_count() -> None:
    assert words_of("I am at 4,2 左上") == ["i", "am", "at", "4", ",", "2", "左", "上"]


def test_special_tokens_and_tags_are_no_words() -> None:
    assert words_of("<bos> go <think> up</think><|im_end|> a < b") == ["go", "up", "a", "<", "b"]
