"""Actions: what may be asked for.  The names are also the scopes of tokens, so they never change."""

from __future__ import annotations

from enum import StrEnum

from millpond.domain.errors import InvalidInput


class Action(StrEnum):
    TENANT_READ = "tenant.read"
    TENANT_CREATE = "tenant.create"
    TENANT_DELETE = "tenant.delete"
    PROJECT_READ = "project.read"
    PROJECT_CREATE = "project.create"
    PROJECT_DELETE = "project.delete"
    MEMBER_READ = "member.read"
    MEMBER_WRITE = "member.write"
    TOKEN_READ = "token.read"  # noqa: S105
    TOKEN_CREATE = "token.create"  # noqa: S105
    TOKEN_REVOKE = "token.revoke"  # noqa: S105
    QUEUE_READ = "queue.read"
    QUOTA_APPLY = "quota.apply"
    NODE_READ = "node.read"
    NODE_OPERATE = "node.operate"
    CARD_READ = "card.read"
    CARD_OPERATE = "card.operate"
    JOB_SUBMIT = "job.submit"
    JOB_READ = "job.read"
    JOB_CONTROL = "job.control"
    JOB_EXEC = "job.exec"
    JOB_LOGS = "job.logs"
    EVENT_READ = "event.read"
    SNAPSHOT_READ = "snapshot.read"
    METRICS_READ = "metrics.read"
    USAGE_READ = "usage.read"
    PRICE_READ = "price.read"
    PRICE_WRITE = "price.write"
    BUDGET_READ = "budget.read"
    BUDGET_WRITE = "budget.write"
    ACCOUNT_READ = "account.read"
    ACCOUNT_WRITE = "account.write"
    INVOICE_READ = "invoice.read"
    INVOICE_WRITE = "invoice.write"
    REPORT_READ = "report.read"


NOUNS = frozenset(action.value.partition(".")[0] for action in Action)


def scopes_parse(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Scopes of a token, sorted, each once.  A scope is an action (``job.read``) or all of a noun (``job.*``)."""
    known = {action.value for action in Action} | {f"{noun}.*" for noun in NOUNS}
    for text in texts:
        if text not in known:
            raise InvalidInput(
                f"{text[:80]!r} is not a scope", hint="write an action such as job.read, or all of a noun: job.*"
            )
    return tuple(sorted(set(texts)))


def scopes_cover(scopes: frozenset[str], wanted: str) -> bool:
    """Whether `scopes` (empty: all) allow `wanted`, an action or ``noun.*``."""
    return not scopes or wanted in scopes or f"{wanted.partition('.')[0]}.*" in scopes
