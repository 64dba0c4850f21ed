"""A stage for scenario files: the same nodes, queues and seats on a live millpond, with times scaled down.

What runs in the file is started node by node (the others are cordoned meanwhile, so that nothing but the file decides
where it sits), saves when the file says that it saved, and then the waiting jobs are submitted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from millpond.domain.queues import queue_tenant
from millpond.files.queues import queue_json
from millpond.scheduling.snapshot import Job, RunState, Snapshot
from millpond.sdk import Client
from millpond.sdk.answers import Attempt
from tests.live import TERMINAL, attempts_of, job_when, wait_for

LONGEST_S = 8.0
"""What the longest unsaved stretch of a file becomes."""

NUMBERS = ("need", "have", "limit", "free")


class Stage:
    """One scenario on one live pool."""

    def __init__(self, client: Client, state_dir: Path, snapshot: Snapshot, plan: Mapping[str, Any]) -> None:
        self.client, self.state_dir, self.snapshot, self.plan = client, state_dir, snapshot, plan
        self.ids: dict[str, str] = {}
        stretches = [_unsaved(job, snapshot.now) for job in self.running()] if plan["evict"] else []
        self.scale = LONGEST_S / max(stretches) if len(stretches) > 1 else 0.0

    def running(self) -> list[Job]:
        jobs = [job for job in self.snapshot.jobs if job.state is RunState.RUNNING]
        return sorted(jobs, key=lambda job: (job.started or 0, job.id))

    def waiting(self) -> list[Job]:
        jobs = [job for job in self.snapshot.jobs if job.state is RunState.QUEUED]
        return sorted(jobs, key=lambda job: (job.submitted, job.id))

    # -- the play

    def clear(self) -> None:
        """End what waits, then what runs, and mend every node."""
        jobs = [job for job in self.client.jobs.list() if job["state"] not in TERMINAL]
        live = [job["id"] for job in sorted(jobs, key=lambda job: job["state"] != "queued")]
        for job in live:
            self.client.jobs.stop(job, grace=0)
        for job in live:
            wait_for(lambda job=job: self.client.jobs.get(job)["state"] in TERMINAL, f"{job} to stop")
        for node in list(self.client.nodes.list()):
            if node["condition"] == "lost":
                self.client.nodes.repair(node["name"])
            if node["condition"] in {"cordoned", "draining"}:
                self.client.nodes.uncordon(node["name"])
            for index in node["bad_cards"]:
                self.client.cards.repair(node["name"], int(index))

    def furnish(self) -> None:
        """Tenants, queues, and the troubles that the file begins with."""
        known = {tenant["name"] for tenant in self.client.tenants.list()}
        for tenant in sorted({queue_tenant(queue.name) for queue in self.snapshot.queues} - known):
            self.client.tenants.create(tenant)
        self.client.queues.replace({"queues": [queue_json(queue) for queue in self.snapshot.queues]})
        for node in self.snapshot.nodes:
            if node.lost:
                self.client.nodes.fault(node.spec.name)
            for index in node.bad_cards:
                self.client.cards.fault(node.spec.name, index)
        wait_for(self._troubled, "the file's faults to show")

    def play(self) -> None:
        """Seat what runs, let it save, then submit what waits."""
        self._seat_all()
        saves: dict[int, list[Job]] = {}
        longest = 0
        for job in self.running():
            stretch = _unsaved(job, self.snapshot.now)
            longest = max(longest, stretch)
            if job.checkpointed is not None and self.scale:
                saves.setdefault(stretch, []).append(job)
        begin = time.monotonic() + self.scale * longest
        for stretch in sorted(saves, reverse=True):
            _sleep_until(begin - self.scale * stretch)
            self._save(saves[stretch])
        _sleep_until(begin)
        waiting = self.waiting()
        together = datetime.now(UTC) + timedelta(seconds=1.2) if len(waiting) > 1 else None
        for job in waiting:
            self.submit(job, start_at=together)

    # -- what came of it, in the words of a plan

    def evicted(self) -> set[tuple[str, str, str]]:
        """(job, claimant, why) of every eviction of a job that ran when the scenario began."""
        names = {job_id: name for name, job_id in self.ids.items()}
        words = {"preempted": "preempt", "reclaimed": "reclaim"}
        return {
            (job.id, names[attempt["drain_for"]], words[attempt["drain_reason"] or ""])
            for job in self.running()
            for attempt in attempts_of(self.client, self.ids[job.id])
            if attempt["drain_for"]
        }

    def seats(self, name: str) -> list[tuple[str, list[int]]]:
        """Where a job that should start has started, once it has."""
        try:
            job_when(self.client, self.ids[name], "running")
        except AssertionError as error:
            raise AssertionError(f"{name} does not run: {self.client.jobs.why(self.ids[name])}") from error
        last: Attempt = attempts_of(self.client, self.ids[name])[-1]
        return [_place(seat) for seat in last["placement"]]

    def reasons(self, name: str) -> list[dict[str, Any]]:
        """Why a job waits: codes and numbers."""
        return [_bare(reason) for reason in self.client.jobs.why(self.ids[name])["reasons"]]

    def planned_reasons(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """The same as the plan has it, for jobs that wait and hold nothing."""
        held = {hold["for"] for hold in self.plan["hold"]}
        for wait in self.plan["wait"]:
            if wait["job"] not in held:
                yield wait["job"], [_bare(reason) for reason in wait["reasons"]]

    def planned_seats(self) -> dict[str, list[tuple[str, list[int]]]]:
        """Where jobs start, at once or on the cards that are held for them."""
        found: dict[str, list[tuple[str, list[int]]]] = {}
        for start in self.plan["start"]:
            found[start["job"]] = [_place(seat) for seat in start["placement"]]
        for hold in self.plan["hold"]:
            found.setdefault(hold["for"], []).append((hold["node"], hold["cards"]))
        return found

    # -- helpers

    def _troubled(self) -> bool:
        nodes = {node["name"]: node for node in self.client.nodes.list()}
        return all(
            (nodes[node.spec.name]["condition"] == "lost") == node.lost
            and len(nodes[node.spec.name]["bad_cards"]) == len(node.bad_cards)
            for node in self.snapshot.nodes
        )

    def _seat(self, job: Job) -> None:
        mine = {seat.node for seat in job.seats}
        others = [node.spec.name for node in self.snapshot.nodes if node.spec.name not in mine and not node.lost]
        for name in others:
            self.client.nodes.cordon(name)
        self.submit(job)
        job_when(self.client, self.ids[job.id], "running")
        for name in others:
            self.client.nodes.uncordon(name)
        attempt = attempts_of(self.client, self.ids[job.id])[-1]
        seats = sorted((seat["node"], tuple(seat["cards"])) for seat in attempt["placement"])
        assert seats == sorted((seat.node, seat.cards) for seat in job.seats), f"{job.id} sits elsewhere"

    def submit(self, job: Job, start_at: datetime | None = None, **more: Any) -> None:
        """Submit a job of the file; `more` are keys of a job file that the file of the scenario does not have."""
        spec: dict[str, Any] = {
            "type": "task",
            "name": job.id,
            "tenant": queue_tenant(job.queue),
            "queue": job.queue.rpartition("/")[2],
            "priority": str(job.priority),
            "preemptible": "true" if job.preemptible else "false",
            "nodes": str(job.nodes),
            "resources": {"gpu": str(job.gpu)},
            "commands": ["sleep 600"],
        }
        if start_at is not None:
            spec["start_at"] = start_at.isoformat()
        self.ids[job.id] = self.client.jobs.submit(spec | more)["id"]

    def _seat_all(self) -> None:
        """Seat what runs, in the file's order.

        Lost work counts whole seconds, so starts that differ in the file must do so here, unless its cap hides it.
        """
        capped = lost_work_cap(self.snapshot) != self.snapshot.settings.lost_work_cap
        last, moment = None, 0.0
        for job in self.running():
            counts = self.scale > 0 and job.checkpointed is None and not capped
            if counts and last is not None and job.started != last:
                _sleep_until(moment + 1.1)
            self._seat(job)
            if counts:
                last, moment = job.started, time.monotonic()

    def _save(self, jobs: list[Job]) -> None:
        """Save as the jobs would; done here, so that it happens at the second that the file names, the same for all."""
        time.sleep(1.05 - time.time() % 1)  # the engine notices within half a second: let that not be the next one
        for job in jobs:
            (self.state_dir / "jobs" / self.ids[job.id] / "checkpoint" / "saved").touch()
        for job in jobs:
            wait_for(lambda job=job: self._last(job)["checkpointed_at"], f"{job.id} to have saved")

    def _last(self, job: Job) -> Attempt:
        return attempts_of(self.client, self.ids[job.id])[-1]


def lost_work_cap(snapshot: Snapshot) -> int:
    """The cap on lost work, scaled like the times where the file's own reach it."""
    longest = max((_unsaved(job, snapshot.now) for job in snapshot.jobs), default=0)
    cap = snapshot.settings.lost_work_cap
    return int(cap * LONGEST_S / longest) if longest > cap else cap


def _place(seat: Mapping[str, Any]) -> tuple[str, list[int]]:
    """Node and cards; of a slice also the slot where it begins."""
    slot = f"@{seat['slot']}" if seat.get("slice") else ""
    return (seat["node"] + slot, seat["cards"])


def _unsaved(job: Job, now: int) -> int:
    moment = job.checkpointed if job.checkpointed is not None else job.started
    return now - (moment if moment is not None else now)


def _bare(reason: Mapping[str, Any]) -> dict[str, Any]:
    return {"code": reason["code"], **{key: reason[key] for key in NUMBERS if reason.get(key) is not None}}


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
