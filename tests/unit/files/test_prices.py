"""A price file says what is wrong with it, and where."""

from __future__ import annotations

import pytest

from millpond.domain.errors import InvalidInput
from millpond.files.prices import price_file_check
from millpond.files.tree import tree_from_yaml
from millpond.zones import zone_find

FILE = """currency: CNY
zone: Asia/Shanghai
prices:
  - {version: v1, sku: A800-80GB, class: prod, price: "12.00", from: 2026-11-01}
  - {version: v2, sku: A800-80GB, class: prod, price: "10.50", from: 2026-12-01}
"""


def check(text: str) -> None:
    price_file_check(tree_from_yaml(text, "prices.yaml", 1 << 20), zone_find)


def test_a_version_without_an_end_is_followed_by_the_next() -> None:
    check(FILE)


@pytest.mark.parametrize(
    ("old", "new", "line", "code"),
    [
        ('"10.50"', '"-1"', 5, "NEGATIVE_PRICE"),
        ("CNY", "RMB", 1, "UNKNOWN_CURRENCY"),
        ("version: v2", "version: v1", 5, "PRICE_TWICE"),
        ("from: 2026-12-01", "from: 2026-12-01, to: 2026-12-02", 5, "PRICE_OVERLAP"),
        ("from: 2026-12-01", "from: 2026-12-01T00:15", 5, "INVALID"),
        ("Shanghai", "Shanghay", 0, "INVALID"),
        ('class: prod, price: "10.50"', "klass: prod", 5, "INVALID"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(old: str, new: str, line: int, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check(FILE.replace(old, new))
    assert caught.value.reason == code
    assert (caught.value.position.line if caught.value.position else 0) == line
