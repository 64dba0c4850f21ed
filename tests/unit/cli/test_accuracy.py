"""How promised starts did, in words: what the share says, and what is said where there is nothing to say."""

from __future__ import annotations

import pytest

from millpond.cli.errors import Exit
from tests.replay import answers
from tests.replay.calls import CommandLine


def told(millpond: CommandLine, held: int, judged: int) -> str:
    found = answers.accuracy()
    found["items"] = [{**found["items"][0], "held": held, "judged": judged}]
    millpond.server.on("GET", "/v1/queues/accuracy", found)
    result = millpond("queue", "--accuracy")
    assert result.code == Exit.OK
    return result.err


@pytest.mark.parametrize(
    ("held", "judged", "said"),
    [(29, 29, "Too few"), (7, 10, "Too few"), (74, 100, "Too bold"), (75, 100, "As sure"), (86, 100, "Too timid")],
)
def test_the_share_is_judged(millpond: CommandLine, held: int, judged: int, said: str) -> None:
    assert told(millpond, held, judged).startswith(said)


def test_nothing_promised_yet(millpond: CommandLine) -> None:
    nothing = {**answers.accuracy(), "items": []}
    millpond.server.on("GET", "/v1/queues/accuracy", nothing)
    millpond.server.on("GET", "/v1/queue", answers.pool())
    assert millpond("queue", "--accuracy").err.startswith("No start has been promised yet")
    assert millpond("queue", "--accuracy", "factor/batch").err.startswith("No start has been promised in factor/batch")
    assert '"items": []' in millpond("queue", "--accuracy", "--json").out
