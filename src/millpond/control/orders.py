"""From an attempt on paper to an order for the engine.  Pure: paths are computed, not touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from millpond.domain.jobs import AttemptState, JobType
from millpond.domain.nodes import NodeSpec
from millpond.domain.records import AttemptRecord, JobRecord, SeatRecord
from millpond.engines.base import Geometry, RankOrder, StartOrder
from millpond.engines.slices import slice_text


@dataclass(frozen=True, slots=True)
class JobPlaces:
    """Directories of a job, the same for every attempt (design §8)."""

    work: Path
    checkpoint: Path
    logs: Path


def job_places(jobs_dir: Path, job: str) -> JobPlaces:
    """``jobs/<id>/{work,checkpoint,logs}``."""
    root = jobs_dir / job
    return JobPlaces(root / "work", root / "checkpoint", root / "logs")


def order_make(
    job: JobRecord,
    attempt: AttemptRecord,
    *,
    jobs_dir: Path,
    specs: Mapping[str, NodeSpec],
    tenant_uid: int,
    epoch: int,
    isolated: bool,
    resume: bool,
) -> StartOrder:
    """Everything that the engine needs to run `attempt`.

    `epoch` is of the leader that gives the order now: an attempt may be planned by one and ordered by the next.
    `specs` are the nodes by name; `resume` says that an earlier attempt left something in the checkpoint directory.
    """
    spec = job.spec
    places = job_places(jobs_dir, job.id)
    work = places.work / spec.working_dir if spec.working_dir else places.work
    service = spec.type is JobType.SERVICE
    nodes = [specs[seat.node] for seat in attempt.seats if seat.node in specs]
    return StartOrder(
        attempt=attempt.id,
        epoch=epoch,
        tenant=job.tenant,
        tenant_uid=tenant_uid,
        commands=spec.commands,
        env=(*spec.env, *job_env(job, attempt, places, resume=resume)),
        ranks=_ranks(attempt.seats, specs, spec.processes_per_node),
        work_dir=str(work),
        work_root=str(places.work),
        checkpoint_dir=str(places.checkpoint),
        log_dir=str(places.logs),
        cpu=spec.resources.cpu,
        memory=spec.resources.memory,
        shm=spec.resources.shm,
        isolated=isolated,
        simulated=any(node.simulated for node in nodes),
        warning_signal=spec.checkpoint.signal,
        ready_path=spec.service.ready_path if spec.service is not None else "",
        ready_timeout=spec.service.ready_timeout if spec.service is not None else 60,
        service=service,
    )


def job_env(job: JobRecord, attempt: AttemptRecord, places: JobPlaces, *, resume: bool) -> tuple[tuple[str, str], ...]:
    """What every rank of an attempt is told about its job (design §5).

    The engine adds what it alone knows: rank, addresses, ports, the deadline file, visible cards.
    """
    env = {
        "MILLPOND_JOB_ID": job.id,
        "MILLPOND_JOB_NAME": job.spec.name,
        "MILLPOND_TENANT": job.tenant,
        "MILLPOND_PROJECT": job.project,
        "MILLPOND_USER": job.user,
        "MILLPOND_QUEUE": job.queue,
        "MILLPOND_ATTEMPT": str(attempt.number),
        "MILLPOND_ATTEMPT_ID": attempt.id,
        "MILLPOND_NODES": str(len({seat.node for seat in attempt.seats})),
        "MILLPOND_WORK_DIR": str(places.work),
        "MILLPOND_CHECKPOINT_DIR": str(places.checkpoint),
        "MILLPOND_GRACE": str(job.spec.checkpoint.grace),
    }
    if resume:
        env["MILLPOND_RESUME_FROM"] = str(places.checkpoint)
    return tuple(sorted(env.items()))


def _ranks(
    seats: tuple[SeatRecord, ...], specs: Mapping[str, NodeSpec], processes_per_node: int
) -> tuple[RankOrder, ...]:
    """One rank per process slot, nodes in the order of the plan.  Every rank of a node sees all its cards, and
    LOCAL_RANK chooses among them, as launchers of distributed training expect."""
    ranks: list[RankOrder] = []
    for node in dict.fromkeys(seat.node for seat in seats):
        own = [seat for seat in seats if seat.node == node]
        kind = specs[node].cards if node in specs else None
        uuids = kind.uuids if kind is not None else ()
        cards = tuple(dict.fromkeys(card for seat in own for card in seat.cards))
        slices = [slice_text(seat.cards[0], seat.slice, seat.slot or 0) for seat in own if seat.slice]
        for local in range(processes_per_node):
            ranks.append(
                RankOrder(
                    rank=len(ranks),
                    local_rank=local,
                    node=node,
                    cards=cards,
                    uuids=tuple(uuids[index] for index in cards) if uuids else (),
                    milli=sum(seat.milli for seat in own) if slices else own[0].milli,
                    slices=tuple(slices),
                )
            )
    return tuple(ranks)


def geometries(attempts: Iterable[AttemptRecord]) -> dict[tuple[str, int], Geometry]:
    """How the cards that have slices must be divided while these attempts live, by node and card."""
    found: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for attempt in attempts:
        if attempt.state is not AttemptState.ENDED:
            for seat in attempt.seats:
                for card in seat.cards if seat.slice and seat.slot is not None else ():
                    found.setdefault((seat.node, card), []).append((seat.slot or 0, seat.slice))
    return {place: tuple((profile, slot) for slot, profile in sorted(items)) for place, items in found.items()}
