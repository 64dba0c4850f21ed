"""The guide says what the code does: job files that parse, every key, every setting, every reason code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from millpond.config import Settings
from millpond.domain.jobs import JobType
from millpond.domain.reasons import Code
from millpond.files.jobs import JOB_KEYS, job_file_load

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "guide"
EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))
OTHER = ("queues", "pool", "prices")
"""Files of examples that are no job files; nor are those of bills."""


def yaml_blocks(name: str) -> list[str]:
    return re.findall(
        r"^```yaml\n(.*?)^```", (GUIDE / name).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )


@pytest.mark.parametrize("text", yaml_blocks("job-file.md"))
def test_job_files_of_the_guide_are_job_files(text: str) -> None:
    assert job_file_load(text, "job-file.md", {"HF_TOKEN": "x"}).type in JobType


@pytest.mark.parametrize(
    "path",
    [path for path in EXAMPLES if path.stem not in OTHER and path.parent.name != "billing"],
    ids=lambda path: path.stem,
)
def test_job_files_of_the_examples_are_job_files(path: Path) -> None:
    environ = dict.fromkeys(("PYTHON", "BROKER", "SEED", "CHECKPOINT_STEPS"), "1")
    assert job_file_load(path.read_text(encoding="utf-8"), path.name, environ).type in JobType


@pytest.mark.parametrize("key", JOB_KEYS)
def test_every_key_of_a_job_file_is_explained(key: str) -> None:
    assert f"`{key}`" in (GUIDE / "job-file.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_explained(name: str) -> None:
    assert f"`MILLPOND_{name.upper()}`" in (GUIDE / "operating.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", Code)
def test_every_reason_code_is_explained(code: Code) -> None:
    assert f"`{code}`" in (GUIDE / "concepts.md").read_text(encoding="utf-8")


def test_links_of_the_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
    pages += [*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("benchmarks/*.md")]
    broken = [
        f"{page.relative_to(ROOT)} → {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []
