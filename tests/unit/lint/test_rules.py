"""The house rules find what they are for, and leave honest code alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.lint.__main__ import main
from tools.lint.finding import Finding, SourceFile
from tools.lint.tree import check

PURE = "src/millpond/scheduling/plan.py"
OTHER = "src/millpond/control/apply.py"


def rules(path: str, text: str) -> list[str]:
    return [finding.rule for finding in check(SourceFile(path, text))]


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        (PURE, "import time\n", "purity"),
        (PURE, "from random import choice\n", "purity"),
        (PURE, "import os.path\n", "purity"),
        (PURE, "from pathlib import Path\n", "purity"),
        (PURE, "import logging\n", "purity"),
        (PURE, "from datetime import datetime\nx = datetime.now()\n", "purity"),
        (PURE, "import datetime\nx = datetime.date.today()\n", "purity"),
        (PURE, "def f():\n    return open('x')\n", "purity"),
        (PURE, "print('x')\n", "purity"),
        (PURE, "x = 0.5\n", "float"),
        (PURE, "x = float('1')\n", "float"),
        (PURE, "def f(x: float) -> None: ...\n", "float"),
        (PURE, "import numpy\nx = numpy.float64(1)\n", "float"),
        (PURE, "import sqlalchemy\n", "third-party"),
        ("src/millpond/domain/cards.py", "import numpy\n", "third-party"),
        ("src/millpond/cli/apply.py", "import pydantic\n", "third-party"),
        ("src/millpond/engines/local/supervisor.py", "from millpond.domain import jobs\n", "stdlib-only"),
        ("src/millpond/engines/local/supervisor/journal.py", "import psutil\n", "stdlib-only"),
        (OTHER, "def f():\n    import json\n", "inner-import"),
        (OTHER, "async def f():\n    from json import loads\n", "inner-import"),
        (OTHER, "class C:\n    def f(self):\n        if self:\n            import json\n", "inner-import"),
        (OTHER, "x = 1\n" * 601, "length"),
        (OTHER, "def f():\n" + "    x = 1\n" * 70, "length"),
        ("src/millpond/control/utils.py", "", "vague-name"),
        ("src/millpond/helpers/thing.py", "", "vague-name"),
        ("tests/unit/test_x.py", "import pytest\npytest.skip()\n", "skip"),
        ("tests/unit/test_x.py", "import pytest\npytest.skip('')\n", "skip"),
        ("tests/unit/test_x.py", "import pytest\n@pytest.mark.skip\ndef test(): ...\n", "skip"),
        ("tests/unit/test_x.py", "import pytest\n@pytest.mark.skipif(True)\ndef test(): ...\n", "skip"),
        ("requirements/dev.txt", "--index-url https://example.org/simple\n", "lock-address"),
        ("requirements/dev.txt", "--find-links /opt/wheels\n", "lock-address"),
        ("requirements/dev.txt", "-f wheels\n", "lock-address"),
        ("requirements/dev.txt", "x @ file:///srv/x.whl\n", "lock-address"),
        ("requirements/dev.txt", "    # via -c /srv/constraints.txt\n", "lock-address"),
        ("web/package-lock.json", '{"resolved": "https://example.org/a.tgz"}\n', "lock-address"),
        ("docs/guide/x.md", "run /root/.pyenv/bin/python\n", "machine-path"),
        ("docs/guide/x.md", "see /home/zhang3/x\n", "machine-path"),
        ("docs/guide/x.md", "TODO: write this\n", "note"),
        (OTHER, "x = 1  # FIXME\n", "note"),
        (OTHER, "def f(:\n", "syntax"),
    ],
)
def test_rule_finds(path: str, text: str, rule: str) -> None:
    assert rule in rules(path, text)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (PURE, "from datetime import datetime, timedelta\nfrom fractions import Fraction\nx = Fraction(1, 2)\n"),
        (PURE, "import numpy as np\nx = np.int64(1)\n"),
        ("tools/go/x/go.sum", "example.org/x v1.10.0/go.mod h1:/CV4QoCR/S9yaPj8utp3lvQPoqMtxXdzn7ozvvozVqk=\n"),
        (PURE, "from pathlib import PurePosixPath\n"),
        (PURE, "def f(now, job):\n    return now + job.open()\n"),
        ("src/millpond/simulation/drive.py", "x = 0.5\n"),
        ("src/millpond/engines/local/supervisor.py", "import os, signal, socket\n"),
        (OTHER, "import time\nx = time.time()\n"),
        (OTHER, "def f():\n" + "    x = 1\n" * 69),
        ("tests/unit/test_x.py", "import pytest\npytest.skip('needs an NVIDIA card')\n"),
        ("tests/unit/test_x.py", "import pytest\n@pytest.mark.skipif(True, reason='needs a GPU')\ndef test(): ...\n"),
        ("tests/unit/test_x.py", "def f():\n    import json\n"),
        ("requirements/dev.txt", "httpx2==2.0 \\\n    --hash=sha256:00\n    # via -c requirements/dev.txt, millpond\n"),
        ("docs/guide/x.md", "state is under /var/lib/millpond, jobs in jobs/<id>/work/ and /home/user/x\n"),
        ("docs/guide/x.md", "[site](https://example.org)\n"),
    ],
)
def test_rule_leaves_honest_code_alone(path: str, text: str) -> None:
    assert rules(path, text) == []


def test_long_module_is_told_before_it_is_refused() -> None:
    findings = check(SourceFile(OTHER, "x = 1\n" * 401))
    assert [(finding.rule, finding.hard) for finding in findings] == [("length", False)]


def test_finding_reads_as_place_and_sentence() -> None:
    assert str(Finding("a.py", 3, "float", "0.5 is a float")) == "a.py:3: float: 0.5 is a float"


def test_floats_only_where_prices_are_solved() -> None:
    assert rules("src/millpond/scheduling/prices.py", "x = 0.5\n") == []
    assert rules("src/millpond/scheduling/score.py", "x = 0.5\n") == ["float"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("ignored/\n")
    for folder in ("src/millpond/domain", "ignored"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff\xfe")
    (tmp_path / "ignored" / "utils.py").write_text("x = 1\n")
    return tmp_path


def test_tree_is_checked_without_ignored_files(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = repository / "src/millpond/domain/amounts.py"
    module.write_text("x = 1\n")
    assert main([str(repository)]) == 0
    module.write_text("x = 1.5\n")
    assert main([str(repository)]) == 1
    assert "src/millpond/domain/amounts.py:1: float: 1.5 is a float" in capsys.readouterr().out
