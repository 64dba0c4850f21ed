"""B1 packing: how much of a cluster is given out when pods come one after the other and nobody leaves.

    python -m benchmarks.packing [--full]

The openb pods arrive on 1 213 nodes until 130 % of the cards are asked for (`openb`).  Each is placed at once, by the
board and the price book that the planner uses, or is refused for good.  The mix is learnt from the arrivals alone.
Ties fall to the smallest node name or to chance; both are measured, and so is FGD on the same lists.

``_fresh``: ten other lists (`FRESH`) of the default file, full form only.  The constants of the score and the weight of
its prior were chosen knowing the results of the seeds of the table; no constant was chosen on these.

`default_at_130_hold_N`: up to N pods with cards may wait although they fit (`scheduling.holdback`).  The full form also
says what each part of the score is worth, and what "the fullest card first" would cost as a rule above the score.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import fmean

from benchmarks import bounds, openb
from benchmarks.figures import Figure, Mode, benchmark_main, progress
from benchmarks.peers import policies
from benchmarks.peers.policies import TIES, Tie
from millpond.domain.amounts import CARD
from millpond.domain.cards import CardRequest
from millpond.domain.errors import Unavailable
from millpond.domain.nodes import CardKind, NodeSpec
from millpond.scheduling.board import Board, Row
from millpond.scheduling.fit import Ask
from millpond.scheduling.holdback import Holdback
from millpond.scheduling.mix import MixCounter, mix_demands
from millpond.scheduling.placing import pool_kinds
from millpond.scheduling.pool import RUN, Pool
from millpond.scheduling.prices import Tuning, book_make
from millpond.scheduling.score import NEVER, Cell, share_score
from millpond.scheduling.snapshot import Job, NodeState, Seat

AHEAD = 0.25
"""Points above FGD, at 100 and at 130 %, under both tie rules, that count as ahead."""

WHOLE_SCORE = Tuning()
FRESH = tuple(range(142, 152))
"""Seeds on which nothing was tuned."""

HOLDS = (256, 1024)

PARTS = {
    "shares": Tuning(shares=False),
    "cpu": Tuning(cpu=False),
    "cpu_only": Tuning(cpu_only=False),
    "groups": Tuning(groups=False),
    "models": Tuning(models=False),
}
"""Parts of the score and the tuning that goes without."""

PART_FILES = ("default", "cpu250", "multigpu50", "gpuspec33")


@dataclass(frozen=True, slots=True)
class Trial:
    """One run.

    ``fullest``: a share may only go to a card with the least left of those that take it.  ``without``: one of `PARTS`.
    """

    workload: str
    seed: int
    tie: Tie = "name"
    hold: int = 0
    learnt: bool = True
    fullest: bool = False
    without: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """% of the cards allocated, pods that came, CPU seconds that placing them took."""

    at_100: float
    at_130: float
    pods: int
    seconds: float


class Packer:
    """One cluster that fills up."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.pool = Pool(
            NodeState(NodeSpec(node.name, node.cpu, node.memory, CardKind(node.model, "nvidia", 0, node.cards)))
            for node in openb.nodes_read()
        )
        self._kinds = pool_kinds(self.pool)
        self._mix = MixCounter()
        self._draws = openb.Draws(trial.seed)
        self._rows: dict[openb.Shape, tuple[Row, Job]] = {}
        self._jobs: dict[int, Job] = {}
        self.board = Board(self.pool, book_make([], self._kinds))
        self._held = Holdback(self.board, trial.hold)
        if not trial.learnt:
            for pod in openb.pods_read(trial.workload):
                self._mix.add(self._job(pod.shape).gpu, pod.shape.cpu)
            self._prices()

    def _prices(self) -> None:
        self.board.book_set(
            book_make(mix_demands(self._mix.mix()), self._kinds, PARTS.get(self.trial.without, WHOLE_SCORE))
        )

    def _job(self, shape: openb.Shape) -> Job:
        gpu = CardRequest(shape.volume, shape.volume, models=shape.models)
        return Job("pod", "openb", gpu, 1, shape.cpu, shape.memory)

    def _known(self, shape: openb.Shape) -> tuple[Row, Job]:
        found = self._rows.get(shape)
        if found is None:
            job = self._job(shape)
            models = tuple(self.pool.models(job.gpu))
            row = self.board.row(job.gpu, models, Ask(shape.volume, 1, shape.cpu, shape.memory))
            found = self._rows[shape] = (row, job)
            self._jobs[row.serial] = job
        return found

    def arrive(self, shape: openb.Shape) -> int:
        """A pod comes; milli-cards given out now, to it or to others."""
        row, job = self._known(shape)
        if self.trial.learnt:
            self._mix.add(job.gpu, job.cpu)
            if self._mix.due():
                self._prices()
        if not self.trial.hold or not shape.volume:
            return shape.volume if self._seat(row, job, self._index(row)) else 0
        self._held.put(row, "")
        return self._release(last=False)

    def _release(self, *, last: bool) -> int:
        given = 0
        while (turn := self._held.drain() if last else self._held.take()) is not None:
            if turn.index is not None and self._seat(turn.row, self._jobs[turn.row.serial], turn.index):
                given += turn.row.ask.milli
        return given

    def end(self) -> int:
        """Nothing more comes: whoever is held goes or is refused."""
        return self._release(last=True) if self.trial.hold else 0

    def _index(self, row: Row) -> int | None:
        if self.trial.fullest and 0 < row.ask.milli < CARD:
            return _fullest(self.pool, self.board, row)
        if self.trial.tie == "name":
            return self.board.best(row)
        equals = self.board.equals(row)
        return equals[self._draws.below(len(equals))] if equals else None

    def _seat(self, row: Row, job: Job, index: int | None) -> bool:
        if index is None:
            return False
        seat = self.board.seat(row, index)
        if self.trial.fullest and 0 < row.ask.milli < CARD:
            free = self.pool.rooms[index].now.free
            seat = Seat(seat.node, (free.index(_least(free, row.ask.milli)),), seat.milli)
        self.pool.put(job, (seat,), RUN)
        return True


def _least(free: Sequence[int], milli: int) -> int:
    return min((left for left in free if left >= milli), default=CARD + 1)


def _fullest(pool: Pool, board: Board, row: Row) -> int | None:
    """The best of the nodes that have the fullest card: the rule that stands above the score in this variant."""
    milli, cell = row.ask.milli, Cell()
    fits = [room for room in pool.rooms if board.score(row, room.index) != NEVER]
    least = {room.index: _least(room.now.free, milli) for room in fits}
    if not least:
        return None
    fullest = min(least.values())
    best = NEVER
    chosen = None
    for room in fits:
        if least[room.index] == fullest:
            cell.load(room.now, board.book)
            score = share_score(cell, milli, fullest, cell.cpu - row.ask.cpu, board.book)
            if score > best:
                best, chosen = score, room.index
    return chosen


def outcome(trial: Trial) -> Outcome:
    """Run one trial."""
    pods, milli = openb.pods_read(trial.workload), openb.capacity(openb.nodes_read())
    order = openb.arrivals(pods, trial.seed, milli)
    packer = Packer(trial)

    def steps() -> Iterator[tuple[int, int]]:
        for number in order:
            shape = pods[number].shape
            yield shape.volume, packer.arrive(shape)
        yield 0, packer.end()

    begun = time.process_time()
    course = openb.course(steps(), milli)
    return Outcome(course.at(100), course.at(130), len(order), time.process_time() - begun)


def outcomes(trials: Sequence[Trial]) -> dict[Trial, Outcome]:
    """Run trials on all cores."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found: dict[Trial, Outcome] = {}
        for trial, result in zip(trials, pool.map(outcome, trials), strict=True):
            found[trial] = result
            progress(f"{len(found)} of {len(trials)} runs: {trial.workload} {result.at_100:.2f} / {result.at_130:.2f}")
    return found


def run(mode: Mode) -> list[Figure]:
    """The figures of B1.

    The short form has all files and lists too, since on fewer a margin over FGD may be chance.  It leaves out the fresh
    lists, what each part is worth, and most lists of holding back.
    """
    files, seeds = openb.WORKLOADS, openb.SEEDS
    held = seeds if mode == "full" else seeds[:2]
    plain = {(file, tie): [Trial(file, seed, tie) for seed in seeds] for file in files for tie in TIES}
    holds = {limit: [Trial("default", seed, hold=limit) for seed in held] for limit in HOLDS}
    parts = _parts(seeds) if mode == "full" else {}
    fresh = {tie: [Trial("default", seed, tie) for seed in FRESH] for tie in TIES} if mode == "full" else {}
    every = [trial for group in (plain, holds, parts, fresh) for trials in group.values() for trial in trials]
    found = outcomes(every)
    peers, missing = _fgd(files, seeds)
    figures = _figures_default(plain, found, peers, missing)
    figures += _figures_files(plain, found, peers, missing)
    if fresh:
        figures += _figures_fresh(fresh, found)
    for limit, trials in holds.items():
        value = fmean(found[trial].at_130 for trial in trials)
        aim = {256: 96.9, 1024: 98.3}[limit]
        bound = _window(limit)
        name = f"default_at_130_hold_{limit}"
        note = "bound: fluid limit, which a single list can pass by a few thousandths"
        figures.append(Figure("B1", name, value, "%", runs=len(trials), bound=bound, aim=aim, better="more", note=note))
    for (name, file), trials in parts.items():
        base = plain[file, "name"]
        for percent in (100, 130):
            loss = _mean(found, base, percent) - _mean(found, trials, percent)
            figures.append(Figure("B1", f"{name}_{file}_at_{percent}", loss, "points", runs=len(trials), better="more"))
    pods, seconds = sum(found[trial].pods for trial in every), sum(found[trial].seconds for trial in every)
    figures.append(Figure("B1", "pods_per_cpu_s", pods / seconds, "pods/s", runs=len(every), better="more"))
    return figures


def _parts(seeds: Sequence[int]) -> dict[tuple[str, str], list[Trial]]:
    """Trials without one part of the score, and with rules above it, by what the loss is called."""
    parts = {
        (f"worth_of_{name}", file): [Trial(file, seed, without=name) for seed in seeds]
        for name in PARTS
        for file in PART_FILES
    }
    parts["loss_by_fullest_first", "default"] = [Trial("default", seed, fullest=True) for seed in seeds[:2]]
    parts["loss_by_learning", "default"] = [Trial("default", seed, learnt=False) for seed in seeds]
    return parts


def _mean(found: dict[Trial, Outcome], trials: Sequence[Trial], percent: int) -> float:
    return fmean(found[trial].at_100 if percent == 100 else found[trial].at_130 for trial in trials)


Peers = dict[tuple[str, Tie], tuple[float, float]]


def _fgd(files: Sequence[str], seeds: Sequence[int]) -> tuple[Peers, str]:
    """FGD's means at 100 and 130 % by file and tie rule; or why there are none."""
    found: Peers = {}
    try:
        for tie in TIES:
            for (_, file), runs in policies.courses(("FGD",), files, seeds, tie).items():
                found[file, tie] = (fmean(run.at(100) for run in runs), fmean(run.at(130) for run in runs))
    except Unavailable as error:
        return {}, str(error)
    return found, ""


def _figures_default(
    plain: dict[tuple[str, Tie], list[Trial]], found: dict[Trial, Outcome], peers: Peers, missing: str
) -> list[Figure]:
    figures = []
    published = openb.published_read()["default"]["FGD"]
    counts = bounds.mix(openb.pods_read("default"), openb.capacity(openb.nodes_read()))
    for percent, aim, load in ((100, 96.2, 1.0), (130, 96.3, 1.3)):
        bound = bounds.monotone_bound(openb.nodes_read(), counts, load)
        for tie in TIES:
            measured = peers.get(("default", tie))
            figures.append(
                Figure(
                    "B1",
                    f"default_at_{percent}" + ("" if tie == "name" else "_random_ties"),
                    _mean(found, plain["default", tie], percent),
                    "%",
                    runs=len(plain["default", tie]),
                    mark=published.at(percent) if tie == "name" else None,
                    mark_source="FGD",
                    measured_mark=None if measured is None else measured[percent == 130],
                    missing=missing,
                    bound=bound,
                    aim=aim,
                    better="more",
                    note="bound: fluid limit of policies that refuse nothing that fits" if tie == "name" else "",
                )
            )
    return figures


def _figures_fresh(fresh: dict[Tie, list[Trial]], found: dict[Trial, Outcome]) -> list[Figure]:
    """The default file on lists on which nothing was tuned."""
    peers, missing = _fgd(("default",), FRESH)
    return [
        Figure(
            "B1",
            f"default_at_{percent}_fresh" + ("" if tie == "name" else "_random_ties"),
            _mean(found, trials, percent),
            "%",
            runs=len(trials),
            mark_source="FGD",
            measured_mark=peers["default", tie][percent == 130] if peers else None,
            missing=missing,
            aim=aim,
            better="more",
            note=f"seeds {FRESH[0]} to {FRESH[-1]}, on which nothing was tuned",
        )
        for tie, trials in fresh.items()
        for percent, aim in ((100, 96.2), (130, 96.3))
    ]


def _figures_files(
    plain: dict[tuple[str, Tie], list[Trial]], found: dict[Trial, Outcome], peers: Peers, missing: str
) -> list[Figure]:
    """Each file beside FGD, and how many are ahead."""
    figures: list[Figure] = []
    margins: dict[str, float] = {}
    for (file, tie), trials in plain.items():
        for percent in (100, 130):
            value = _mean(found, trials, percent)
            measured = peers[file, tie][percent == 130] if peers else None
            if measured is not None:
                margins[file] = min(margins.get(file, 100.0), value - measured)
            if file != "default":
                name = f"{file}_at_{percent}" + ("" if tie == "name" else "_random_ties")
                figures.append(
                    Figure(
                        "B1", name, value, "%", runs=len(trials), mark_source="FGD", measured_mark=measured,
                        missing=missing, better="more",
                    )
                )  # fmt: skip
    if margins:
        ahead = sum(1 for margin in margins.values() if margin >= AHEAD)
        note = f"by at least {AHEAD} points, at 100 and 130 %, under both tie rules"
        aim = float(len(margins))
        figures.append(Figure("B1", "files_ahead_of_fgd", ahead, "files", aim=aim, better="more", note=note))
        least = min(margins, key=lambda file: margins[file])
        margin = Figure("B1", "smallest_margin", margins[least], "points", aim=AHEAD, better="more", note=least)
        figures.append(margin)
    return figures


def _window(limit: int) -> float:
    nodes = openb.nodes_read()
    counts = bounds.mix(openb.pods_read("default"), openb.capacity(nodes))
    return bounds.window_bound(nodes, counts, limit)


if __name__ == "__main__":
    raise SystemExit(benchmark_main("packing", run))
