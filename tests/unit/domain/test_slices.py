"""The vendor's slice tables, and what is said about profiles that no card has."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

from millpond.domain.cards import card_request_parse
from millpond.domain.errors import InvalidInput
from millpond.domain.slices import SLICE_TABLES, SliceTable, slice_milli, slice_names, slice_table

SEVEN = {"1g": 7, "2g": 3, "3g": 2, "4g": 1, "7g": 1}


@pytest.mark.parametrize("table", SLICE_TABLES, ids=lambda table: f"{table.models[0]}-{table.memory // 1024}")
def test_every_placement_is_on_the_card(table: SliceTable) -> None:
    for profile in table.profiles:
        assert all(start + profile.slots <= table.slots for start in profile.starts)
        assert all(second - first >= profile.slots for first, second in pairwise(profile.starts))
        limit = 1 if profile.media else len(profile.starts)
        assert profile.instances == limit
        assert profile.instances * profile.compute <= table.compute
        assert 0 < table.milli(profile) <= -(-profile.slots * 1000 // table.slots)


@pytest.mark.parametrize("table", SLICE_TABLES, ids=lambda table: f"{table.models[0]}-{table.memory // 1024}")
def test_slots_that_fit_never_need_more_compute_than_there_is(table: SliceTable) -> None:
    """The claim of the module: memory slots decide alone."""

    @cache
    def most(taken: int, used: int) -> int:
        options = [
            most(taken | profile.mask(start), used + profile.compute)
            for profile in table.profiles
            for start in profile.starts
            if not taken & profile.mask(start)
        ]
        return max(options, default=used)

    assert most(0, 0) <= table.compute


def test_shares_are_of_the_memory_rounded_up() -> None:
    assert slice_milli("A100-40GB", 40_960, "1g.5gb") == 119
    assert slice_milli("a800", 81_920, "1g.10gb") == 119
    assert slice_milli("H100-80GB", 81_559, "3g.40gb") == 494
    assert slice_milli("H200-141GB", 143_771, "3g.71gb") == 493
    assert slice_milli("B200", 183_359, "1g.23gb") == 114
    assert slice_milli("A100-40GB", 40_960, "1g.18gb") is None
    assert slice_milli("L40S", 49_152, "1g.5gb") is None


@pytest.mark.parametrize(
    ("model", "memory", "largest"),
    [
        ("A100-40GB", 40_960, "7g.40gb"),
        ("A800-80GB", 81_920, "7g.80gb"),
        ("A30", 24_576, "4g.24gb"),
        ("H100-94GB", 96_256, "7g.94gb"),
        ("H100-96GB", 98_304, "7g.96gb"),
        ("H20", 98_304, "7g.96gb"),
        ("H200-141GB", 143_771, "7g.141gb"),
        ("B200", 183_359, "7g.180gb"),
    ],
)
def test_table_is_found_by_model_and_memory(model: str, memory: int, largest: str) -> None:
    table = slice_table(model, memory)
    assert table is not None
    assert table.profiles[-1].name == largest
    seven = {profile.name.partition(".")[0]: profile.instances for profile in table.profiles if not profile.media}
    assert table.slots == 4 or seven == {**SEVEN, "1g": 4}  # the wide 1g comes after the narrow one


def test_media_engines_exist_once() -> None:
    names = list(slice_names())
    assert {"1g.5gb+me", "1g.10gb+me", "1g.6gb+me", "2g.12gb+me", "1g.18gb+me", "1g.23gb+me"} <= set(names)
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("mig-1g.7gb", "did you mean mig-1g.6gb?"),
        ("A800-80GB:mig-1g.5gb", "did you mean mig-1g.10gb?"),
        ("A100-40GB:mig-3g.21gb x2", "did you mean mig-3g.20gb?"),
        ("H200:mig-7g.80gb", "did you mean mig-7g.141gb?"),
        ("A100-40GB:mig-2g.10gb+me", "did you mean mig-2g.10gb?"),
    ],
)
def test_unknown_profiles_name_the_nearest(text: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        card_request_parse(text)
    assert caught.value.hint == hint


def test_profiles_of_unknown_models_are_left_to_the_pool() -> None:
    assert card_request_parse("B300:mig-1g.34gb").slice == "1g.34gb"
