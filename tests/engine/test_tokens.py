"""Tokens as text: no incomplete characters and nothing lost, for different kinds of tokenizer."""

import pytest
from fakes import WordTokenizer

from aded.cli.terminal import harmless, visible
from aded.engine.loading.tokenizer import IncrementalDetokenizer, TokenTexts, _byte_by_character, continued, tokenizer_fingerprint


class ByteTokenizer(WordTokenizer):
    """Token i is the byte i."""

    all_special_ids = ()

    def decode(self, ids, skip_special_tokens=False, clean_up_tokenization_spaces=False):
        return bytes(int(i) for i in ids).decode("utf-8", "replace")


@pytest.mark.parametrize("text", ["plain", "naïve – 漢字 – 🤷🏽‍♀️!", "é" * 50, "🙂" * 20])
def test_bytes_come_out_as_whole_characters(text):
    reader = IncrementalDetokenizer(ByteTokenizer())
    pieces = [reader.push(b) for b in text.encode()]
    assert "".join(pieces) == text
    assert all("\ufffd" not in piece for piece in pieces)


def test_invalid_bytes_are_not_held_back_for_ever():
    reader = IncrementalDetokenizer(ByteTokenizer())
    out = "".join(reader.push(b) for b in b"\xff" * 30 + b"ok")
    assert out.endswith("ok")


@pytest.mark.model
def test_real_tokens_decoded_one_by_one_give_the_same_text(real_model):
    text = "Hello, world! Ünïcödé 漢字かな 🤷🏽‍♀️ <img src=x> ${1+1}\n\n  indented\tend"
    ids = real_model.tokenizer(text, add_special_tokens=False)["input_ids"]
    reader = IncrementalDetokenizer(real_model.tokenizer)
    assert "".join(reader.push(i) for i in ids) == real_model.tokenizer.decode(ids) == text


class ByteLevelTokenizer:
    """Token i is the byte i, with the names of a byte-level vocabulary."""

    all_special_ids = ()

    def __call__(self, text, add_special_tokens=False):
        return {"input_ids": list(text.encode())}

    def decode(self, ids, skip_special_tokens=False, clean_up_tokenization_spaces=False):
        return bytes(ids).decode("utf-8", "replace")

    def convert_ids_to_tokens(self, token):
        return next(name for name, byte in _byte_by_character().items() if byte == token)


def test_bytes_of_incomplete_characters_are_shown_in_hexadecimal():
    texts = TokenTexts(ByteLevelTokenizer())
    assert texts.all("🤷".encode()) == ["<0xF0>", "<0x9F>", "<0xA4>", "<0xB7>"]
    assert texts.all(b"a \n") == ["a", " ", "\n"]


@pytest.mark.model
def test_single_tokens_have_a_text_to_show(real_model):
    texts = TokenTexts(real_model.tokenizer)
    end = real_model.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert texts(end) == "<|im_end|>"
    assert texts(real_model.tokenizer(" the", add_special_tokens=False)["input_ids"][0]) == " the"
    halves = real_model.tokenizer("🤷", add_special_tokens=False)["input_ids"]
    assert all("\ufffd" not in texts(i) and texts(i) for i in halves)


def test_fingerprints_distinguish_vocabularies():
    assert tokenizer_fingerprint(WordTokenizer(5)) == tokenizer_fingerprint(WordTokenizer(5))
    assert tokenizer_fingerprint(WordTokenizer(5)) != tokenizer_fingerprint(WordTokenizer(6))


def test_control_characters_are_made_visible_and_never_sent_to_a_terminal():
    assert "\x1b" not in harmless("a\x1b[31mb\x9b") + visible("\x1b\x07\u202e ")
    assert harmless("line\n\ttab") == "line\n\ttab"


class PieceTokenizer(WordTokenizer):
    """Splits text into the longest pieces that it knows; a model may write it in shorter ones."""

    pieces = ("<s>", "</s>", "<end>", "ab", "abc", "a", "b", "c", " ", "é", "\n")

    def __call__(self, text, add_special_tokens=True):
        ids = []
        while text:
            ids.append(max((i for i, p in enumerate(self.pieces) if text.startswith(p)), key=lambda i: len(self.pieces[i])))
            text = text[len(self.pieces[ids[-1]]) :]
        return {"input_ids": ids}

    def decode(self, ids, skip_special_tokens=False, clean_up_tokenization_spaces=False):
        return "".join(self.pieces[i] for i in ids)


A, B, C, AB, ABC, SPACE, START, STOP, END = 5, 6, 7, 3, 4, 8, 0, 1, 2
"""Tokens of ``PieceTokenizer``; ``STOP`` ends a turn in the template, ``END`` is another token that ends an answer."""


@pytest.mark.parametrize(
    ("written", "text", "kept"),
    [
        ([A, B, C, STOP], "abc", [A, B, C, STOP]),  # the answer has ended as the template ends it,
        ([A, B, C], "abc", [A, B, C]),  # at the limit of new tokens,
        ([A, B, C, END], "abc", [A, B, C]),  # by another token,
        ([A, B, C, SPACE, SPACE], "abc", [A, B, C]),  # with spaces that the template drops,
        ([AB, C], "ab", [AB]),  # by a stop string,
        ([A, B], "abc", []),  # and edited by the client in the middle of a token, or
        ([C, A], "bb", []),  # from the start
    ],
)
def test_a_prompt_begins_with_the_tokens_of_an_earlier_decode_as_far_as_their_text_is_the_same(written, text, kept):
    tokenizer = PieceTokenizer()
    whole = f"<s>ab{text}</s><s>ca"
    fresh = tokenizer(whole)["input_ids"]
    ids = continued(tokenizer, [START, A, B, *written], fresh)
    assert ids[: 3 + len(kept)] == [START, A, B, *kept]
    assert tokenizer.decode(ids) == whole
    assert continued(tokenizer, (), fresh) == fresh


def test_a_prompt_that_an_earlier_decode_begins_with_is_unchanged():
    tokenizer = PieceTokenizer()
    fresh = tokenizer("<s>abc</s>")["input_ids"]
    assert continued(tokenizer, [*fresh, A, B], fresh) == fresh
