import re
from importlib import import_module
from pathlib import Path
from string import Formatter

import pytest

import millpond.cli as package
from millpond.cli.catalogue import CATALOGUE
from millpond.cli.catalogue.billing import BILLING
from millpond.cli.catalogue.machine import MACHINE
from millpond.cli.catalogue.offline import OFFLINE
from millpond.cli.main import SECTIONS
from millpond.cli.texts import Texts, language
from millpond.domain.jobs import AttemptState, EndReason, JobState, JobType
from millpond.domain.reasons import Code
from millpond.scheduling.decisions import Rank

ROOT = Path(package.__path__[0])
SAME_IN_BOTH = re.compile(r"(head\.(cpu|uid)|try\..*|error\..*|wait\.reached|end\.|rank\.)\Z")


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("key", CATALOGUE)
def test_both_languages_say_it(key: str) -> None:
    english, chinese = CATALOGUE[key]
    assert placeholders(english) == placeholders(chinese)
    assert bool(english) == bool(chinese)
    if not SAME_IN_BOTH.match(key):
        assert re.search(r"[\u4e00-\u9fff]", chinese), chinese
    assert not re.search(r"[\u3000-\u9fff]", english), english


def test_no_key_is_in_two_parts() -> None:
    modules = [import_module(f"millpond.cli.catalogue.{path.stem}") for path in (ROOT / "catalogue").glob("[a-z]*.py")]
    parts = [part for module in modules for name, part in vars(module).items() if name.isupper()]
    assert sum(len(part) for part in parts) == len(CATALOGUE)


def used_keys() -> set[str]:
    """Every key that the code names."""
    keys: set[str] = set()
    for path in ROOT.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        keys |= set(re.findall(r'texts\(\s*"([\w.]+)"', text))
        keys |= set(re.findall(r'help="([\w.]+)"', text))
        keys |= {f"head.{key}" for key in re.findall(r'Column\("(\w+)"', text)}
        keys |= set(re.findall(r'"((?:ps|why|queue|quota|run|stop|hold|release|logout|help)\.\w+)"', text))
    return keys | {"option.help"}


def test_every_key_that_is_used_is_there() -> None:
    assert used_keys() <= set(CATALOGUE)


def test_every_text_is_used() -> None:
    computed = re.compile(r"(help|field|word|state|end|rank|type|reason|try|error|run|queue|why)\.")
    elsewhere = MACHINE.keys() | OFFLINE.keys() | BILLING.keys()  # their commands are not in this room
    assert {key for key in CATALOGUE if not computed.match(key)} - elsewhere <= used_keys()


def test_every_code_has_its_word() -> None:
    wanted = {f"state.{code.value}" for code in (*JobState, *AttemptState)}
    wanted |= {f"end.{code.value}" for code in EndReason}
    wanted |= {f"type.{code.value}" for code in JobType}
    wanted |= {f"rank.{rank.word}" for rank in Rank}
    wanted |= {f"reason.{code.value}" for code in Code}
    wanted |= {f"help.{name}" for section in SECTIONS.values() for name in section} | set(SECTIONS)
    assert wanted <= set(CATALOGUE)


@pytest.mark.parametrize(
    ("environ", "wanted", "lang"),
    [
        ({}, "", "en"),
        ({"LANG": "zh_CN.UTF-8"}, "", "zh"),
        ({"LANG": "de_DE.UTF-8"}, "", "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "", "en"),
        ({"LANG": "zh_CN.UTF-8", "MILLPOND_LANG": "en"}, "", "en"),
        ({"LANG": "zh_CN.UTF-8"}, "en", "en"),
        ({"LANG": "C"}, "zh", "zh"),
    ],
)
def test_language(environ: dict[str, str], wanted: str, lang: str) -> None:
    assert language(environ, wanted) == lang


def test_new_codes_are_shown_as_they_are() -> None:
    assert Texts("zh").word("state", "dreaming") == "dreaming"
