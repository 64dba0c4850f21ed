"""The house's own gates: skips in CI, branch coverage, lock files."""

from __future__ import annotations

import json
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from tests import plugin_skips
from tools import coverage_gate

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("value", "strict"), [("true", True), ("1", True), ("", False), ("false", False)])
def test_skips_are_strict_in_ci_only(monkeypatch: pytest.MonkeyPatch, value: str, strict: bool) -> None:
    monkeypatch.setenv("CI", value)
    assert plugin_skips.strict() is strict


def test_only_missing_hardware_may_skip() -> None:
    assert plugin_skips.allowed("needs an NVIDIA card: none found")
    assert not plugin_skips.allowed("bubblewrap is missing")


def test_skip_fails_in_ci_unless_hardware_is_missing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(
        """
        import pytest

        def test_needs_tool():
            pytest.skip("bwrap is missing")

        def test_needs_card():
            pytest.skip("needs an NVIDIA card")

        @pytest.mark.xfail(reason="known", strict=True)
        def test_known():
            assert False
        """
    )
    arguments = ("-p", "tests.plugin_skips", "-p", "no:cacheprovider")
    monkeypatch.setenv("CI", "true")
    result = pytester.runpytest_subprocess(*arguments)
    result.assert_outcomes(skipped=1, failed=1, xfailed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    monkeypatch.setenv("CI", "")
    pytester.runpytest_subprocess(*arguments).assert_outcomes(skipped=2, xfailed=1)


def report(domain: tuple[int, int], scheduling: tuple[int, int]) -> dict[str, object]:
    rooms = {"domain": domain, "scheduling": scheduling}
    return {
        "files": {
            f"src/millpond/{room}/x.py": {"summary": {"covered_branches": covered, "num_branches": total}}
            for room, (covered, total) in rooms.items()
        }
    }


@pytest.mark.parametrize(
    ("domain", "scheduling", "status"),
    [((95, 100), (100, 100), 0), ((949, 1000), (100, 100), 1), ((100, 100), (94, 100), 1), ((0, 0), (1, 1), 1)],
)
def test_coverage_gate(
    tmp_path: Path,
    domain: tuple[int, int],
    scheduling: tuple[int, int],
    status: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps(report(domain, scheduling)))
    assert coverage_gate.main([str(path)]) == status
    assert "scheduling:" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["runtime", "server", "dev"])
def test_lock_files_pin_and_hash_everything(name: str) -> None:
    """Each requirement is pinned and has a hash; the smaller files are parts of the largest."""
    pins = lock_pins(name)
    assert pins
    assert pins.items() <= lock_pins("dev").items()


def lock_pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    pins = {}
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            requirement, *hashes = line.split()
            assert "--hash=sha256:" in "".join(hashes), requirement
            package, pinned, version = requirement.partition("==")
            assert pinned, requirement
            pins[package] = version
    return pins


def test_every_dependency_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    names = {
        requirement.replace("[", ">").partition(">")[0].strip().lower().replace("_", "-") for requirement in wanted
    }
    assert names <= lock_pins("dev").keys()
