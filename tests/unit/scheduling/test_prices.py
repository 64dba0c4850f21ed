"""What the price book says of a mix, and that it says nothing when there is none."""

from __future__ import annotations

import pytest

from millpond.domain.cards import card_request_parse
from millpond.domain.errors import InvalidInput
from millpond.scheduling.mix import Demand, MixCounter, MixMemory, demand_key, demand_parse, mix_demands
from millpond.scheduling.prices import ONE, PER_MILLION, Kinds, book_make, scarcity_price
from millpond.scheduling.score import usable
from tests.builders import job

POOL = (Kinds("nvidia", "A800-80GB", 81_920, 40_000), Kinds("nvidia", "H20-96GB", 98_304, 10_000))


def demands(**counts: int) -> list[Demand]:
    """Requests by amount, written as ``c250=3`` for three of 250 milli-cards, each with 4 CPUs for a whole card."""
    return mix_demands(
        {demand_key(card_request_parse(str(int(name[1:]) / 1000)), int(name[1:]) * 4): n for name, n in counts.items()}
    )


def test_no_mix_prices_nothing() -> None:
    for mix in ([], mix_demands({"0": 5}), mix_demands({"mig-1g.5gb": 5})):
        book = book_make(mix, POOL)
        assert book.empty
        assert not any(book.worth)
        assert not any(book.groups)
        assert (book.ratio_cards, book.ratio_none, book.tied) == (0, 0, {})


def test_a_card_is_worth_what_fits_into_it() -> None:
    worth = book_make(demands(c250=10, c500=10)).worth
    assert (worth[0], worth[249], worth[1000]) == (0, 0, ONE)
    assert worth[250] == worth[499] > 0
    assert worth[500] == pytest.approx(ONE / 2, rel=0.05)
    assert worth == sorted(worth)


def test_what_no_request_can_use_is_worth_little() -> None:
    worth = book_make(demands(c600=10, c400=10)).worth
    assert worth[390] == worth[0] == 0
    assert worth[400] + worth[600] == pytest.approx(ONE, rel=0.02)
    assert worth[999] < ONE
    assert worth[400] == worth[590]


def test_shares_that_do_not_divide_a_card_still_fill_it() -> None:
    """Three of 0.333 fit, though they are not a whole number of steps."""
    worth = book_make(demands(c333=10)).worth
    assert worth[333] == pytest.approx(ONE / 3, rel=0.05)
    assert worth[666] == pytest.approx(2 * ONE / 3, rel=0.05)


def test_only_whole_cards_make_remainders_worthless() -> None:
    worth = book_make(demands(c1000=1)).worth
    assert worth[:1000] == [0] * 1000
    assert worth[1000] == ONE


def test_idle_cards_together_are_worth_more_where_they_are_asked_for() -> None:
    groups = book_make(demands(c8000=1000, c1000=1000)).groups
    assert groups[8] - groups[7] > ONE // 2
    assert groups[7] < groups[8] < groups[16]
    few, many = (book_make(demands(c1000=count)).groups for count in (10, 100_000))
    assert few[8] > few[7]  # too early to say that nobody wants eight
    assert many[8] < many[7] < 0


def test_cpu_is_no_limit_where_nobody_asks_for_it() -> None:
    book = book_make(mix_demands({"0.5": 3, "1": 2}))
    assert usable(book.curve_cards, book.ratio_cards, 0, 5 * ONE) == 5 * ONE


def test_scarce_cpu_leaves_cards_unusable() -> None:
    book = book_make(demands(c1000=10))
    served = [usable(book.curve_cards, book.ratio_cards, cpu, 8 * ONE) for cpu in (0, 4_000, 16_000, 32_000, 400_000)]
    assert served[0] == 0
    assert served == sorted(served)
    assert served[1] < 2 * ONE
    assert served[-1] > 8 * ONE * 0.99


def test_models_that_demand_is_tied_to() -> None:
    book = book_make(mix_demands({"H20:1": 1, "2": 2}), POOL)
    assert book.tied == {"H20-96GB": PER_MILLION // 5}
    assert scarcity_price(book.tied["H20-96GB"], 10_000, 50_000) == scarcity_price(PER_MILLION, 1000, 1000)
    assert scarcity_price(book.tied["H20-96GB"], 40_000, 50_000) < scarcity_price(book.tied["H20-96GB"], 1000, 50_000)
    assert scarcity_price(0, 10, 10) == 0
    assert book_make(mix_demands({"A800,H20:1": 1}), POOL).tied == {}


def test_a_book_does_not_depend_on_the_order_of_the_mix() -> None:
    one = book_make(demands(c250=3, c330=4, c900=1), POOL)
    two = book_make(demands(c900=1, c330=4, c250=3), POOL)
    assert (one.worth, one.groups, one.ratio_cards) == (two.worth, two.groups, two.ratio_cards)


def test_keys_of_a_mix() -> None:
    gpu = card_request_parse("A800:0.25")
    assert demand_parse(demand_key(gpu, 1500)) == (gpu, 1500)
    assert demand_parse(demand_key(gpu, 0)) == (gpu, 0)
    with pytest.raises(InvalidInput, match="is not a request"):
        demand_parse("1 cpu=two")


def test_counting_a_mix_asks_for_prices_often_at_first() -> None:
    counter, due = MixCounter(every=500), []
    for number in range(1, 2200):
        counter.add(card_request_parse("0.5"), 1000)
        if counter.due():
            due.append(number)
    assert due == [32, 64, 128, 256, 512, 1012, 1512, 2012]
    assert counter.mix() == {"0.5 cpu=1000": 2199}


def test_a_mix_fades() -> None:
    counter = MixCounter({"1": 90, "2": 1}, every=10, window=100)
    for _ in range(10):
        counter.add(card_request_parse("0.5"), 0)
    assert counter.due()
    assert counter.mix() == {"1": 45, "0.5": 5}
    assert not counter.due()
    counter.add(card_request_parse("0.5"), 0, 40)
    assert counter.due()


def test_a_remembered_mix_changes_when_enough_jobs_have_come() -> None:
    memory = MixMemory()
    jobs = [job(f"j{number}", "t/batch", 2, cpu=1000) for number in range(40)]
    assert memory.observe(jobs[:31]) == {}
    assert memory.observe(jobs[:31]) == {}
    assert memory.observe(jobs[:33]) == {"2 cpu=1000": 32}
    assert memory.observe(jobs) == {"2 cpu=1000": 32}
    assert MixMemory({"1": 3}).observe([]) == {"1": 3}
