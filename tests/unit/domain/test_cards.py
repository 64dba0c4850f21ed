"""The ``gpu`` grammar."""

from __future__ import annotations

import pytest

from millpond.domain.cards import CardRequest, card_request_parse
from millpond.domain.errors import InvalidInput
from millpond.domain.names import model_matches

CASES = {
    "8": CardRequest(8000, 8000),
    "A800:8": CardRequest(8000, 8000, models=("A800",)),
    "24GB..:1": CardRequest(1000, 1000, memory_min=24_576),
    "..24GB": CardRequest(1000, 1000, memory_max=24_576),
    "40GB..80GB:2": CardRequest(2000, 2000, memory_min=40_960, memory_max=81_920),
    "40GB": CardRequest(1000, 1000, memory_min=40_960, memory_max=40_960),
    "nvidia:A100,H100:40GB..:0.25": CardRequest(250, 250, "nvidia", ("A100", "H100"), 40_960),
    "ascend:910B:4": CardRequest(4000, 4000, "ascend", ("910B",)),
    "NVIDIA": CardRequest(1000, 1000, "nvidia"),
    "1..4": CardRequest(4000, 1000),
    "4090:8": CardRequest(8000, 8000, models=("4090",)),
    "mig-1g.5gb": CardRequest(slice="1g.5gb", slices=1),
    "A100:mig-1g.5gb x2": CardRequest(models=("A100",), slice="1g.5gb", slices=2),
    "0": CardRequest(),
}


@pytest.mark.parametrize("text", CASES)
def test_parse_and_write(text: str) -> None:
    request = card_request_parse(text)
    assert request == CASES[text]
    assert card_request_parse(str(request)) == request


@pytest.mark.parametrize(
    "text",
    ["", "A800:", ":8", "8:A800", "A800:nvidia", "A800:H100:8", "1:2:3:4:5", "0.3333", "1.5", "0.5..2", "4..1", "0..2",
     "-1", "1e3", "80GB..40GB", "A 800:1", "mig-1g", "mig-1g.5gb x0", "mig-1g.5gb x65", "4097", "a,,b"],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        card_request_parse(text)


def test_kinds() -> None:
    assert card_request_parse("1..4").elastic
    assert card_request_parse("0.5").fraction
    assert not card_request_parse("1").fraction
    assert card_request_parse("0").none
    assert not card_request_parse("mig-1g.5gb").none


def test_matches() -> None:
    assert model_matches("a800", "A800-80GB")
    assert not model_matches("A80", "A800-80GB")
    request = card_request_parse("nvidia:A100:40GB..:1")
    assert request.card_matches("NVIDIA", "A100-40GB", 40_960)
    assert not request.card_matches("amd", "A100-40GB", 40_960)
    assert not request.card_matches("nvidia", "H100", 40_960)
    assert not request.card_matches("nvidia", "A100", 20_480)
    assert not card_request_parse("..40GB").card_matches("nvidia", "A100", 81_920)
