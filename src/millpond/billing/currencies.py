"""Currencies in use, with the decimal places of their smallest unit.

Source: ISO 4217:2015 list one (national currencies, maintained by SIX), as of 2026.  Funds, metals and test codes are
left out: nobody is invoiced in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from millpond.domain.errors import InvalidInput

_TWO = """
AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP CVE CZK
DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD
KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP
PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH
USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG
"""
_NONE = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
_THREE = "BHD IQD JOD KWD LYD OMR TND"

MINOR_UNITS: Final[dict[str, int]] = {
    **dict.fromkeys(_TWO.split(), 2),
    **dict.fromkeys(_NONE.split(), 0),
    **dict.fromkeys(_THREE.split(), 3),
}
"""Code → decimal places of the smallest unit: CNY has fen (2), JPY nothing smaller (0), KWD fils (3)."""

USUAL: Final[dict[str, str]] = {"RMB": "CNY", "CNH": "CNY", "NTD": "TWD", "YUAN": "CNY"}
"""What people call some of them."""


@dataclass(frozen=True, slots=True)
class Currency:
    """``minor_units``: decimal places of the smallest unit, to which invoice lines are rounded."""

    code: str
    minor_units: int

    def __str__(self) -> str:
        return self.code


def currency_find(code: str) -> Currency:
    """The currency with this code (``CNY``).  `InvalidInput` for one that is not in ISO 4217."""
    places = MINOR_UNITS.get(code)
    if places is None:
        usual = USUAL.get(code.upper())
        near = [usual] if usual else get_close_matches(code.upper()[:8], MINOR_UNITS, n=1)
        hint = f"did you mean {near[0]}?" if near else "write a code of ISO 4217, such as CNY or USD"
        raise InvalidInput(f"{code[:20]!r} is not a currency", hint=hint, code="UNKNOWN_CURRENCY")
    return Currency(code, places)
