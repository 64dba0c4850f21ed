"""The broker's day, act by act, through the public SDK only.  Every figure is read from the API or the jobs' logs."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

import yaml
from bills import Bill, accounts_open, bills_read
from board import Board
from digits import digits_load
from journal import Journal, Line
from stage import BROKER

from millpond.files.jobs import job_file_load, job_spec_json
from millpond.sdk import Client
from millpond.sdk.answers import Attempt, Explanation, Job

T = TypeVar("T")

FACTORS, LANGUAGES = 5, 3
SLOW = 1_000_000
"""Steps between checkpoints of the job that saves least often: it has the most to lose."""
TRADES = {"trade": "desk", "factor": "alpha", "nlp": "models"}
PREDICTIONS = 40
OPEN = timedelta(seconds=3)
"""How long trade's day is at least: time is billed by the whole second."""


class ActFailed(Exception):
    """Something that had to happen did not, in time."""


@dataclass
class Day:
    """What happened.  ``others``: trade's ``service``, and the ``extra`` job with which factor meets its cap."""

    factors: list[Job] = field(default_factory=list)
    languages: list[Job] = field(default_factory=list)
    others: dict[str, Job] = field(default_factory=dict)
    why: Explanation | None = None
    why_claim: Explanation | None = None
    ready_seconds: float = -1.0
    split: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    pool: int = 0
    bills: list[Bill] = field(default_factory=list)
    predictions: int = 0
    recognised: int = 0
    ranks_answering: int = 0


class Broker:
    """Three tenants and their jobs on the millpond that `client` speaks to."""

    def __init__(self, client: Client, journal: Journal, board: Board) -> None:
        self.client, self.journal, self.board = client, journal, board
        self.day = Day()

    def tenants_make(self) -> None:
        for tenant, project in TRADES.items():
            self.client.tenants.create(tenant)
            self.client.projects.create(tenant, project)
        document = yaml.safe_load((BROKER / "queues.yaml").read_text(encoding="utf-8"))
        result = self.client.queues.replace(document)
        self.day.pool = self.client.queues.tree()["pool"]["cards"]
        accounts_open(self.client, list(TRADES))
        changes = len(result["changes"])
        self.board.say(f"trade, factor and nlp share {self.day.pool // 1000} cards ({changes} queues changed)")

    def night(self) -> None:
        """The pool is full: factor trains on 40 cards, nlp on the 24 that nobody needs."""
        day = self.day
        day.factors = [self._submit("factor", number) for number in range(1, FACTORS + 1)]
        for number in range(1, LANGUAGES + 1):
            steps = SLOW if number == LANGUAGES else 25
            day.languages.append(self._submit("nlp", number, CHECKPOINT_STEPS=str(steps)))
        everybody = [*day.factors, *day.languages]
        self._until("all eight run", 30, lambda: all(self._job(job)["state"] == "running" for job in everybody))
        saving = [*day.factors, *day.languages[:-1]]
        self._until("they save checkpoints", 30, lambda: all(self._saved(job, 1) for job in saving))
        day.used["night"] = self._cards_used()
        self.board.say(f"night: {day.used['night'] // 1000} of {day.pool // 1000} cards train, all but one have saved")
        extra = day.others["extra"] = self._submit("factor", FACTORS + 1)
        day.why = self._until("a reason", 10, lambda: self._why(extra))
        self.board.say(f"factor asks for 8 more and waits: {day.why['reasons'][0]['text']}")

    def morning(self) -> None:
        """The opening bell: trade takes back its 16 cards."""
        day = self.day
        self.board.say("morning: trade submits its service, 2 nodes of 8 cards")
        service = day.others["service"] = self._submit("trade", 0)
        day.why_claim = self._why(service)
        attempt = self._until("the service is ready", 60, lambda: self._ready(service))
        day.ready_seconds = _between(service["submitted_at"], attempt["ready_at"] or "")
        self.board.say(f"trade is ready {day.ready_seconds:.2f} s after it was submitted")
        self._until("the victims are gone", 30, lambda: len(self.evicted(day.languages)) >= 2 and not self._leaving())
        day.used["day"] = self._cards_used()
        for job in self.client.queues.pool()["running"]:
            day.split[job["tenant"]] = day.split.get(job["tenant"], 0) + job["milli"]
        self._predict(attempt)

    def evening(self) -> None:
        """Trade goes home; what gave way goes on where it was."""
        day = self.day
        opened = self.attempts(day.others["service"])[-1]["ready_at"] or ""
        closes = datetime.fromisoformat(opened) + OPEN
        self._until("the closing bell", 30, lambda: datetime.now(UTC) >= closes)
        self.client.jobs.stop(day.others["service"]["id"])
        self.board.say("evening: trade stops its service")
        for job in self.evicted(day.languages):
            self._until(f"{job['name']} goes on", 45, partial(self._gone_on, job))
        day.used["evening"] = self._cards_used()
        self.board.say("the evicted jobs train on from their checkpoints")

    def evicted(self, jobs: list[Job]) -> list[Job]:
        """Those that were asked to leave, by anybody but their owner."""
        return [job for job in jobs if any(map(asked_to_leave, self.attempts(job)))]

    def attempts(self, job: Job) -> list[Attempt]:
        return sorted(self.client.jobs.attempts(job["id"]), key=lambda attempt: attempt["number"])

    def refreshed(self, job: Job) -> Job:
        return self._job(job)

    def close(self) -> None:
        """Everybody goes home, and each team is told what its day costs."""
        live = ["queued", "starting", "running", "stopping"]
        for job in self.client.jobs.list(states=live):
            self.client.jobs.stop(job["id"], grace=0)
        self._until("everybody has stopped", 30, lambda: not list(self.client.jobs.list(states=live, limit=1)))
        self.day.bills = bills_read(self.client, list(TRADES))
        self.board.say("the day is metered and billed")

    def _submit(self, kind: str, number: int, **environ: str) -> Job:
        path = BROKER / f"{kind}.yaml"
        given = {"PYTHON": sys.executable, "BROKER": str(BROKER), "SEED": str(number), **environ}
        spec = job_file_load(path.read_text(encoding="utf-8"), path.name, given)
        if number:
            spec = replace(spec, name=f"{spec.name}-{number}")
        return self.client.jobs.submit(job_spec_json(spec))

    def _job(self, job: Job) -> Job:
        return self.client.jobs.get(job["id"])

    def _saved(self, job: Job, attempt: int) -> Line | None:
        return self.journal.last(job["id"], attempt, "checkpoint", "saved")

    def _gone_on(self, job: Job) -> Line | None:
        """The first checkpoint of a later attempt."""
        attempt = self._job(job)["attempts"]
        return self._saved(job, attempt) if attempt > 1 else None

    def _why(self, job: Job) -> Explanation | None:
        explanation = self.client.jobs.why(job["id"])
        return explanation if explanation["reasons"] else None

    def _ready(self, job: Job) -> Attempt | None:
        ready = [attempt for attempt in self.attempts(job) if attempt["ready_at"]]
        return ready[-1] if ready else None

    def _leaving(self) -> bool:
        return any(True for _ in self.client.jobs.list(states=["stopping"]))

    def _cards_used(self) -> int:
        return self.client.queues.tree()["used"].get("cards", 0)

    def _predict(self, attempt: Attempt) -> None:
        """Ask every rank of the service what some of the pictures show."""
        day = self.day
        service = day.others["service"]
        pictures, digits = digits_load()
        ranks = range(service["ranks"])
        ports = [self._port(service, attempt["number"], rank) for rank in ranks]
        answered = set()
        for index in range(PREDICTIONS):
            body = json.dumps({"pixels": [round(pixel * 16) for pixel in pictures[index]]}).encode()
            url = f"http://127.0.0.1:{ports[index % len(ports)]}/predict"
            request = urllib.request.Request(url, body)
            with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
                answer = json.load(response)
            answered.add(answer["rank"])
            day.recognised += int(answer["digit"] == digits[index])
            day.predictions += 1
        day.ranks_answering = len(answered)
        right = f"{day.recognised} of {day.predictions} pictures recognised"
        self.board.say(f"trade answers: {right}, by {len(answered)} ranks")

    def _port(self, job: Job, attempt: int, rank: int) -> int:
        def told() -> int | None:
            lines = self.journal.lines(job["id"], attempt, rank)
            ports: list[int] = [line["port"] for line in lines if line["event"] == "serving"]
            return ports[-1] if ports else None

        return self._until(f"rank {rank} tells its port", 10, told)

    def _until(self, what: str, seconds: float, look: Callable[[], T | None]) -> T:
        """Look again and again until there is something to see."""
        deadline = time.monotonic() + seconds
        while True:
            seen = look()
            if seen:
                return seen
            if time.monotonic() > deadline:
                raise ActFailed(f"waited {seconds:.0f} s in vain: {what}\n{self._state()}")
            time.sleep(0.1)

    def _state(self) -> str:
        """Every live job with the first reason that it waits for, for the error message."""
        lines = []
        for job in self.client.jobs.list(limit=50):
            reasons = self.client.jobs.why(job["id"])["reasons"] if job["state"] == "queued" else []
            wait = f" {reasons[0]['code']}: {reasons[0]['text']}" if reasons else ""
            lines.append(f"  {job['name']} {job['state']} attempt {job['attempts']} {job['message']}{wait}")
        return "\n".join(lines)


def asked_to_leave(attempt: Attempt) -> bool:
    return attempt["drain_reason"] not in {None, "cancelled"}


def _between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def mapping_format(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {milli // 1000}" for name, milli in sorted(values.items()))
