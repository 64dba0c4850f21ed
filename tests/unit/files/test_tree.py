"""The positioned tree: YAML and JSON, and what they refuse."""

from __future__ import annotations

import pytest

from millpond.domain.errors import InvalidInput, Position
from millpond.files.tree import Listing, Mapping, Scalar, text_decode, tree_from_json, tree_from_yaml


def test_positions_are_exact() -> None:
    tree = tree_from_yaml("a:\n  - b: {c: ü d}\n", "x.yaml")
    assert isinstance(tree, Mapping)
    listing = tree.entries[0].value
    assert isinstance(listing, Listing)
    inner = listing.items[0]
    assert isinstance(inner, Mapping)
    block = inner.entries[0].value
    assert isinstance(block, Mapping)
    assert block.entries[0].value == Scalar("ü d", Position(2, 12, "a[0].b.c", "x.yaml"))


def test_json_has_paths_and_no_lines() -> None:
    tree = tree_from_json({"a": [1, 0.25, True, "x"], "gone": None}, "body")
    assert isinstance(tree, Mapping)
    assert [entry.key for entry in tree.entries] == ["a"]
    listing = tree.entries[0].value
    assert isinstance(listing, Listing)
    assert [item.text for item in listing.items if isinstance(item, Scalar)] == ["1", "0.25", "true", "x"]
    assert str(listing.items[1].pos) == "body: a[1]"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": "x\0"}, "body: a: a NUL character is not allowed here"),
        ({"a": "\ud800"}, "the character U+D800 is not allowed here"),
        ({"a\n": 1}, "a key contains a control character"),
        ({"a": 10**40}, "the number is too large"),
        ({"a": {1, 2}}, "a set is not a JSON value"),
    ],
)
def test_bad_json(value: object, expected: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        tree_from_json(value, "body")
    assert expected in str(caught.value)


def test_deep_json() -> None:
    value: object = "x"
    for _ in range(100):
        value = [value]
    with pytest.raises(InvalidInput, match="nested deeper than 16 levels"):
        tree_from_json(value, "body")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("? [a]\n: b\n", "a key must be one word"),
        ('"a\\tb": 1\n', "a key contains a control character"),
        ("a: \x1b[31m\n", "x.yaml:1:4: the character U+001B is not allowed here"),
        ("# nothing\n", "the file is empty"),
        ("%YAML 9.9\n---\na: b\n", "this is not YAML"),
    ],
)
def test_bad_yaml(text: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        tree_from_yaml(text, "x.yaml")
    assert expected in str(caught.value)


def test_byte_order_mark_is_no_harm() -> None:
    assert text_decode(b"\xef\xbb\xbfa: b", "x.yaml") == "a: b"
