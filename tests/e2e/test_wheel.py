"""Both wheels as users get them: built, installed into fresh environments, used, and saying the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.golden.scenario_files import FOLDER, SIMULATED, names
from tests.live import Millpond
from tools.compile import ROOT, compiler_found, compiler_name, sources

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

BUILDS = ("python", "compiled")

WHERE = "import millpond.{module} as found; print(found.__file__)"


@dataclass(frozen=True, slots=True)
class Installed:
    """A wheel and an environment that has nothing of millpond but what the wheel brought."""

    build: str
    wheel: Path
    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MILLPOND_", "PYTHON"))}
        return subprocess.run(
            [self.folder / "bin" / program, *words],
            env=kept | {"LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def installed_make(build: str, folder: Path) -> Installed:
    """Build one wheel the way the guide says, and install it beside this environment's other packages."""
    environ = {**os.environ, "MILLPOND_PURE": "1" if build == "python" else "0"}
    dist = folder / "dist"
    _must([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(dist)], environ)
    (wheel,) = dist.glob("*.whl")
    home = folder / "venv"
    _must([sys.executable, "-m", "venv", "--without-pip", str(home)])
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python")]
    _must([*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)])
    site = home / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")  # .pth files there are not read: no checkout
    return Installed(build, wheel, home)


def _must(words: list[str], environ: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(words, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Installed]:
    if not compiler_found():
        pytest.skip(f"no C compiler: {compiler_name()} is not on PATH")
    return {build: installed_make(build, tmp_path_factory.mktemp(build)) for build in BUILDS}


def test_the_wheels_hold_what_their_names_say(wheels: dict[str, Installed]) -> None:
    contents = {build: zipfile.ZipFile(made.wheel).namelist() for build, made in wheels.items()}
    compiled = {name.split(".")[0] for name in contents["compiled"] if name.endswith(".so")}
    assert {str(path.with_suffix("")) for path in sources()} <= compiled
    assert not [name for name in contents["python"] if name.endswith(".so")]
    plain = {build: {name for name in found if name.startswith("millpond/")} for build, found in contents.items()}
    assert plain["python"] == {name for name in plain["compiled"] if not name.endswith(".so")}
    assert wheels["python"].wheel.name.endswith("-py3-none-any.whl")
    assert not wheels["compiled"].wheel.name.endswith("-any.whl")


@pytest.mark.parametrize("build", BUILDS)
def test_the_modules_of_the_wheel_are_imported(wheels: dict[str, Installed], build: str) -> None:
    made = wheels[build]
    ending = ".so" if build == "compiled" else ".py"
    for module in ("scheduling.plan", "scheduling.board", "simulation.driver", "domain.amounts"):
        found = made.run("python", "-c", WHERE.format(module=module)).stdout.strip()
        assert found.startswith(str(made.folder)), found
        assert found.endswith(ending), found
    said = made.run("millpond", "version").stdout
    assert ("compiled core" if build == "compiled" else "core in pure Python") in said


def test_plans_and_simulations_are_the_same_bytes(wheels: dict[str, Installed]) -> None:
    for command, scenarios in (("plan", names()), ("simulate", SIMULATED)):
        for name in scenarios:
            answers = [
                made.run("millpond", command, str(FOLDER / f"{name}.yaml"), "--json") for made in wheels.values()
            ]
            pure, compiled = [(done.returncode, done.stdout, done.stderr) for done in answers]
            assert pure[0] == 0, pure
            assert len(pure[1]) > 2, name
            assert compiled == pure, name


@pytest.mark.parametrize("build", BUILDS)
def test_a_server_of_the_wheel_runs_a_job(wheels: dict[str, Installed], build: str, home: Path) -> None:
    made = wheels[build]
    pond = Millpond(home / "state", "1x4xA100-40GB", python=str(made.python))
    pond.environ.pop("PYTHONPATH", None)
    try:
        pond.up()
        maps = Path(f"/proc/{pond.server()['pid']}/maps").read_text()
        core = [line for line in maps.splitlines() if "/millpond/scheduling/" in line]
        assert bool(core) == (build == "compiled")
        assert all(f" {made.folder}/" in line for line in core)
        done = pond.command("run", "--gpu", "1", "--", "echo", "hello from a wheel")
        assert "hello from a wheel" in done.stdout
    finally:
        pond.down()
