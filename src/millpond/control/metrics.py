"""What the loops count.  One object, made by the composition root and shown by the API's ``/metrics``."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_FAST = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class ControlMetrics:
    """Counters of the control loops, in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.leading = Gauge("millpond_leader", "1 while this server leads.", registry=registry)
        self.epoch = Gauge("millpond_leader_epoch", "Fencing epoch of this server's last term.", registry=registry)
        self.passes = Counter("millpond_plan_passes", "Planning passes, by result.", ["result"], registry=registry)
        self.pass_seconds = Histogram(
            "millpond_plan_pass_seconds", "Load, plan, check and store.", buckets=_FAST, registry=registry
        )
        self.starts = Counter("millpond_attempts_planned", "Attempts planned.", registry=registry)
        self.evictions = Counter("millpond_evictions", "Jobs asked to leave for another.", ["why"], registry=registry)
        self.alarms = Counter("millpond_alarms", "Things that must not happen and did.", ["kind"], registry=registry)
        self.facts = Counter("millpond_engine_facts", "Facts stored, by kind.", ["kind"], registry=registry)
        self.orders = Counter("millpond_engine_orders", "Orders given, by verb and result.", ["verb", "result"],
                              registry=registry)  # fmt: skip
        self.errors = Counter("millpond_loop_errors", "Errors that a loop survived.", ["loop"], registry=registry)
        self.waiting = Gauge("millpond_jobs_waiting", "Jobs waiting, by first reason.", ["code"], registry=registry)
        self.live = Gauge("millpond_attempts_live", "Attempts that occupy cards.", registry=registry)
