"""What-if on the command line: the guide's own commands, both languages, what is said about bad input, Ctrl-C.

``MILLPOND_WRITE_GOLDEN=1`` writes the guide's outputs and picture and the recorded texts anew; read the difference.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from millpond.cli.errors import Exit, ExtraMissing
from millpond.cli.main import command_run
from millpond.cli.session import Surroundings
from tests.golden.scenario_files import FOLDER, command_output
from tests.replay.calls import use_terminal

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "what-if.md"
PICTURE = PAGE.with_suffix(".svg")
RECORDED = Path(__file__).parent / "cli"
WRITE = bool(os.environ.get("MILLPOND_WRITE_GOLDEN"))
DAY = str(FOLDER / "S01-day.yaml")
MORE = ("--case", "more: queues.factor/batch.cap=48, nodes.+2")
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n" + "".join(
    f"{n},40,{1 + n % 8},1,c{n % 3}\n" for n in range(60)
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own, with the examples that the guide names."""
    shutil.copytree(ROOT / "examples" / "what-if", tmp_path / "examples" / "what-if")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks() -> list[tuple[str, str]]:
    """(command, what the page says that it prints)."""
    return re.findall(r"```sh\n(.*?)\n```\n\n```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("number", range(2))
def test_the_guide_shows_what_its_commands_print(number: int, here: Path) -> None:
    line, shown = blocks()[number]
    code, out, err = command_output(*shlex.split(line)[1:])
    if WRITE and code == 0:
        PAGE.write_text(PAGE.read_text(encoding="utf-8").replace(shown, out), encoding="utf-8")
        shown = out
    assert (code, out) == (0, shown)
    if "--report" not in line:
        assert err == ""
        return
    assert err == "Report written to what-if.html\n"
    page = (here / "what-if.html").read_text(encoding="utf-8")
    picture = page[page.index("<figure") :]
    picture = picture[picture.index("<svg") : picture.index("</svg>") + 6] + "\n"
    if WRITE:
        PICTURE.write_text(picture, encoding="utf-8")
    assert "<svg" in PICTURE.read_text(encoding="utf-8")
    assert sorted(path.name for path in here.iterdir()) == ["examples", "what-if.html"]


def test_the_guide_shows_the_error_that_is_printed() -> None:
    line, error = re.findall(r"^\$ (millpond .*)\n(millpond: .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)[0]
    assert command_output(*shlex.split(line)[1:]) == (Exit.USAGE, "", error + "\n")


def recorded(name: str, text: str) -> None:
    path = RECORDED / f"{name}.txt"
    if WRITE:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_comparison_in_chinese() -> None:
    code, out, err = command_output("simulate", DAY, *MORE, "--lang", "zh")
    assert (code, err) == (0, "")
    recorded("what-if.zh.pipe", out)


def test_comparison_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "130")
    assert command_run(("simulate", DAY, *MORE), Surroundings(environ={})) == 0
    shown = capsys.readouterr()
    recorded("what-if.en.terminal", shown.out)
    assert "\x1b[1m" in shown.out
    assert "baseline" in shown.err  # its bar


def test_comparison_for_machines() -> None:
    code, out, _ = command_output(
        "simulate", DAY, *MORE, "--case", "settings.cooldown=30s", "--set", "nodes.+1", "--json"
    )
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, [line["run"] for line in lines]) == (0, ["baseline", "more", "settings.cooldown=30s"])
    assert [line["set"] for line in lines] == [
        ["nodes.+1"],
        ["nodes.+1", "queues.factor/batch.cap=48", "nodes.+2"],
        ["nodes.+1", "settings.cooldown=30s"],
    ]
    assert lines[1]["summary"]["tenants"]["factor"]["running"] == 5
    assert set(lines[0]["summary"]["wait_seconds"]) == {"mean", "p50", "p95", "max"}


def test_parallel_or_one_after_the_other_is_the_same() -> None:
    call = ("simulate", DAY, *MORE, "--json")
    assert command_output(*call, "--parallel", "1") == command_output(*call, "--parallel", "2")


def test_set_changes_a_single_run() -> None:
    code, out, _ = command_output("simulate", DAY, "--add-nodes", "2=n1", "--set", "queues.factor/batch.cap=48")
    assert code == 0
    assert "0 evictions" in out
    assert "n9[0-7] n10[0-7]" in out
    assert '"n9"' in command_output("plan", str(FOLDER / "S01-bell.yaml"), "--add-nodes", "2", "--json")[1]


def test_traces_are_simulated_and_converted(here: Path) -> None:
    Path("t.csv").write_text(PHILLY)
    code, out, err = command_output("simulate", "t.csv", "--json")
    assert code == 0
    assert err.startswith("No --pool: the trace runs on 224 cards (nodes: 28), at most 80 %")
    direct = out.splitlines()[-1]
    code, out, err = command_output("snapshot", "convert", "t.csv", "--pool", "4x8xA100", "-o", "t.yaml")
    assert (code, out) == (0, "")
    assert err == "60 jobs, 4 nodes, 3 queues written to t.yaml; try: millpond simulate t.yaml\n"
    until = str(json.loads(direct)["summary"]["elapsed"])
    same = command_output("simulate", "t.csv", "--pool", "4x8xA100", "--until", until, "--json")
    assert command_output("simulate", "t.yaml", "--until", until, "--json")[1] == same[1]
    code, out, _ = command_output(
        "simulate", "t.csv", "--pool", "t.yaml", "--limit", "9", "--speed", "2", "--from", "30s"
    )
    assert code == 0
    assert "c0/batch" in out


BAD = [
    (("simulate", "t.csv"), "t.csv:2:5: duration: 'soon' is not a number of seconds"),
    (("snapshot", "convert", "t.csv", "-o", "out.yaml"), "t.csv:2:5: duration: 'soon'"),
    (("simulate", "u.csv"), "u.csv:1:1: no trace that we know has this header"),
    (("simulate", "v.csv"), "v.csv:2:3: byte 0xff is not UTF-8"),
    (("simulate", "nowhere.csv.xz"), "cannot read nowhere.csv.xz: No such file or directory"),
    (("simulate", "w.csv.xz"), "cannot read w.csv.xz: Input format not supported"),
    (("simulate", "nodes.csv"), "nodes.csv lists nodes, not jobs (simulate PODS.csv --pool nodes.csv)"),
    (("simulate", DAY, "--speed", "2"), "--speed is for traces"),
    (
        ("simulate", DAY, "--set", "queues.factor/batch.cap=x"),
        "--set:1:25: queues.factor/batch.cap: 'x' is not a valid",
    ),
    (("simulate", DAY, "--add-nodes", "2=n77"), "--add-nodes:1:3: nodes.+2: there is no node 'n77'"),
    (("simulate", DAY, "--add-nodes", "some"), "--add-nodes:1:1: 'some' is not a number of nodes"),
    (("simulate", DAY, "--add-nodes", "0"), "--add-nodes:1:1: '0' is not a number of nodes"),
    (("simulate", DAY, *MORE, "--case", "more: nodes.+1"), "two runs are called 'more'"),
    (("simulate", DAY, "--case", "more:"), "--case 'more:' changes nothing"),
    (
        ("simulate", DAY, *MORE, "--case", "b: nodes.+1, queues.x/batch.cap=1"),
        "--case:2:21: queues.x/batch.cap: there is",
    ),
    (("simulate", DAY, "--until", "11y"), "millpond: --until: '11y' is not a duration"),
    (("simulate", DAY, "--until", "0s"), "--until 0s is not between 1s and ten years"),
    (("simulate", "ok.csv", "--speed", "fast"), "millpond: --speed: 'fast' is not a valid speed"),
    (("simulate", "ok.csv", "--from", "noon"), "millpond: --from: 'noon' is not a time"),
    (("simulate", "ok.csv", "--checkpoint-every", "x"), "millpond: --checkpoint-every: 'x' is not a duration"),
    (("simulate", "zip.csv"), "zip.csv:1:1: this is not a text file"),
    (("simulate", DAY, "--parallel", "0"), "--parallel 0 is out of range"),
    (
        ("simulate", DAY, "--report", "no/such/folder.html"),
        "cannot write no/such/folder.html: No such file or directory",
    ),
    (("simulate", DAY, "--report", "examples"), "cannot write examples: Is a directory"),
    (
        ("plan", DAY, "--set", "queues.factor/batch.cap=30"),
        "--set:1:21: queues.factor/batch.cap: queue factor/batch: its",
    ),
]


@pytest.mark.parametrize(("call", "expected"), BAD)
def test_bad_input_is_exit_code_two_with_its_place_and_writes_nothing(
    call: tuple[str, ...], expected: str, here: Path
) -> None:
    Path("t.csv").write_text("timestamp,duration,num_gpus\n100,soon,1\n".replace("100", "1.0"))
    Path("u.csv").write_text("a,b,c\n1,2,3\n")
    Path("v.csv").write_bytes(b"timestamp,duration,num_gpus\n1,\xff,1\n")
    Path("ok.csv").write_text("timestamp,duration,num_gpus\n1,9,1\n")
    Path("zip.csv").write_bytes(b"PK\x03\x04\0\0")
    Path("w.csv.xz").write_bytes(b"this is not xz")
    Path("nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\na,1,1,2,A100\n")
    before = sorted(here.iterdir())
    code, out, err = command_output(*call)
    assert (code, out) == (Exit.USAGE, "")
    assert expected in err
    assert len(err.splitlines()) == 1
    assert sorted(here.iterdir()) == before


def test_a_snapshot_without_jobs_says_so() -> None:
    Path("idle.yaml").write_text("nodes: [{name: n1, cards: {model: A100, count: 8}}]\nqueues: [{name: a/batch}]\n")
    code, _, err = command_output("simulate", "idle.yaml")
    assert code == 0
    assert err.startswith("No jobs to simulate: a snapshot holds those that wait or run now, a trace those to come.")


def test_a_report_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("millpond.reports.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = command_output("simulate", DAY, "--report", "r.html")
    assert (code, out) == (Exit.USAGE, "")
    assert "pip install 'millpond[reports]'" in err
    assert ExtraMissing("x", "y").hint == "pip install 'millpond[server]'"
    assert not Path("r.html").exists()


def test_interrupted_run_keeps_what_there_is() -> None:
    """SIGINT comes once the first events have been read: no waiting for a moment."""
    rows = "".join(f"{n * 10},25,1,1,c\n" for n in range(20_000))
    Path("t.csv").write_text("timestamp,duration,num_gpus,gpu_time,cluster\n" + rows)
    call = [
        sys.executable,
        "-m",
        "millpond.cli.main",
        "simulate",
        "t.csv",
        "--pool",
        "1x8xA100",
        "--json",
        "--report",
        "r.html",
    ]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate()
    assert json.loads(first)["event"] in {"arrive", "start"}
    last = json.loads(rest.splitlines()[-1])
    assert (process.returncode, last["interrupted"]) == (Exit.CANCELLED, True)
    assert 0 <= last["summary"]["elapsed"] < 200_000
    assert "Report written to r.html" in err
    assert "stopped early" in Path("r.html").read_text(encoding="utf-8")


def test_an_interrupt_after_the_runs_costs_no_report() -> None:
    """The tables are printed, SIGINT comes, and the report is drawn nevertheless."""
    call = [sys.executable, "-m", "millpond.cli.main", "simulate", DAY, *MORE, "--report", "r.html"]
    with subprocess.Popen(
        call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert (process.returncode, err) == (Exit.OK, "Report written to r.html\n")
    assert Path("r.html").exists()
