"""Every limit that keeps a judged job waiting when the pass is over (scheduling §7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from millpond.domain.cards import CardRequest
from millpond.domain.reasons import Code, Reason
from millpond.scheduling.budget import hours_reasons
from millpond.scheduling.fit import Ask, ask_on
from millpond.scheduling.masks import bound_key
from millpond.scheduling.options import Options
from millpond.scheduling.preempt import eviction_find
from millpond.scheduling.reasons import cap_reasons, guarantee_reason, lend_reason, room_reasons, static_reason
from millpond.scheduling.snapshot import Job
from millpond.scheduling.state import State


class Limits:
    """Reasons by the state as it is when they are asked for; jobs of one shape share the answer."""

    def __init__(self, state: State, options: Options) -> None:
        self._state = state
        self._options = options
        self._pass = 0
        self._found: dict[tuple[object, ...], tuple[int, tuple[Reason, ...]]] = {}
        """Why there is no room, by shape, in this pass."""
        self._static: dict[tuple[CardRequest, Ask], Reason | None] = {}

    def of(self, job: Job) -> tuple[Reason, ...]:
        """The reasons of one job; empty if nothing keeps it from starting."""
        state = self._state
        group = state.group(job)
        kept = bound_key(state, job, group.ask)
        moment = (state.version, state.now if group.budgeted or state.protecting or kept else 0)
        if group.judged != moment or group.bound != kept:
            group.judged, group.bound, group.reasons = moment, kept, self._find(job, group.ask)
        return group.reasons

    def free(self, job: Job) -> bool:
        """Whether nothing keeps a job from starting: as `of`, without looking for all reasons."""
        return not self._find(job, self._state.group(job).ask, first=True)

    def forget(self) -> None:
        """A node is in another state: more or less may be possible at all."""
        self._static.clear()

    def begin(self) -> None:
        """A pass begins."""
        self._pass += 1
        self._found.clear()

    def _find(self, job: Job, ask: Ask, *, first: bool = False) -> tuple[Reason, ...]:
        """All reasons; ``first``: some, if there are any."""
        state = self._state
        shape = (job.gpu, ask)
        if shape not in self._static:
            self._static[shape] = static_reason(state, job, ask)
        static = self._static[shape]
        if static is not None and static.code is not Code.CORDONED:
            return (static,)
        models = self._options.models(job, ask) or list(state.pool.configured(job.gpu))
        sized = [ask_on(state.pool, ask, model) for model in models] or [ask]
        quotas = [self._quota(job, at, model) for at, model in zip(sized, models, strict=False)]
        reasons: list[Reason] = []
        for code in ((Code.QUEUE_CAP, Code.TENANT_CAP), (Code.NEEDS_GUARANTEE,)):
            if all(any(reason.code in code for reason in found) for found in quotas):
                reasons.extend(reason for reason in quotas[0] if reason.code in code)
        reasons.extend(hours_reasons(state, job, sized[0]))
        if static is not None:
            return (*reasons, static)
        if first and reasons:
            return tuple(reasons)
        rooms = self._rooms(job, ask)
        if rooms and not (reasons and eviction_find(state, job, ask, limits=False)):
            reasons.extend(rooms)
        elif not rooms and all(self._lend_lack(job, ask, model) for model in models):
            reasons.append(lend_reason(state, job, sized[0], models[0], self._options.free(job, models[0])))
        return tuple(reasons) or self._each(job, ask, models, quotas)

    def _lend_lack(self, job: Job, ask: Ask, model: str) -> int:
        return self._options.lend_lack(job, ask_on(self._state.pool, ask, model), model)

    def _quota(self, job: Job, ask: Ask, model: str) -> list[Reason]:
        """Caps and guarantee that bind on one model."""
        leaf, dims = self._state.leaf(job), self._state.tree.dims_of(model)
        reasons = list(cap_reasons(list(self._state.usage.cap_lacks(leaf, ask.total, dims))))
        lack = None if job.preemptible else self._state.usage.guarantee_lack(leaf, ask.total, dims)
        return reasons if lack is None else [*reasons, guarantee_reason(lack)]

    def _each(self, job: Job, ask: Ask, models: Sequence[str], quotas: Sequence[list[Reason]]) -> tuple[Reason, ...]:
        """Where one model is out for this reason and the next for that: what binds on each; empty if one is free."""
        if len(models) < 2:
            return ()
        reasons: list[Reason] = []
        for model, found in zip(models, quotas, strict=True):
            found = found or list(room_reasons(self._state, job, ask, model))
            if not found and self._lend_lack(job, ask, model):
                sized = ask_on(self._state.pool, ask, model)
                found = [lend_reason(self._state, job, sized, model, self._options.free(job, model))]
            if not found:
                return ()
            reasons.extend(replace(reason, text=f"on {model}: {reason.text}") for reason in found)
        return tuple(reasons)

    def _rooms(self, job: Job, ask: Ask) -> tuple[Reason, ...]:
        key = ("rooms", job.gpu, ask, bound_key(self._state, job, ask))
        known = self._found.get(key)
        if known is None or known[0] != self._state.version:
            known = self._found[key] = (self._state.version, room_reasons(self._state, job, ask))
        return known[1]
