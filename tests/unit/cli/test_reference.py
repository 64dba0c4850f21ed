from pathlib import Path

from millpond.cli.reference import reference

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "cli.md"


def test_page_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run: make docs"
