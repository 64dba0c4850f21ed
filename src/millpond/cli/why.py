"""``millpond why``: every reason that keeps a job from starting, and what to try."""

from __future__ import annotations

from millpond.cli.lazy import argument, command
from millpond.cli.output import Column
from millpond.cli.reasons import reason_sentence
from millpond.cli.session import Session
from millpond.cli.values import age, cards, local, moment, owner, seats, until
from millpond.sdk.answers import Counterfactual, Explanation

AHEAD = (Column("job"), Column("owner"), Column("queue"), Column("cards", right=True), Column("age", right=True))
SHOWN_AHEAD = 20
OLD_S = range(2, 60)
"""Ages of an answer that are told; more is a client's clock that is wrong."""


@command("why")
@argument("job")
def why(session: Session, job: str) -> None:
    """Reasons with numbers, who is ahead, hold, expected start, the next thing to try."""
    explanation = session.client.jobs.why(job, **session.place)
    if session.json:
        session.output.data(explanation)
        return
    _headline(session, explanation)
    explanation_write(session, explanation)


def _headline(session: Session, explanation: Explanation) -> None:
    texts = session.texts
    name = explanation["name"] or explanation["job"]
    if explanation["state"] != "queued":
        word = texts.word("state", explanation["state"])
        session.output.line(texts("why.not_waiting", name=name, state=word, queue=explanation["queue"]))
        return
    session.output.line(texts("why.waits", name=name, queue=explanation["queue"], places=_places(session, explanation)))


def _places(session: Session, explanation: Explanation) -> str:
    parts = []
    if explanation["position"] is not None:
        parts.append(session.texts("why.place", place=explanation["position"]))
    if explanation["pool_position"] is not None:
        parts.append(session.texts("why.pool_place", place=explanation["pool_position"]))
    if explanation["rank"]:
        parts.append(session.texts("why.rank", rank=session.texts.word("rank", explanation["rank"])))
    return "".join(parts)


def explanation_write(session: Session, explanation: Explanation) -> None:
    """The body that `why` and `offer` share."""
    output, texts = session.output, session.texts
    if explanation["simulated"]:
        output.line(texts("why.simulated"))
    if int((session.now() - moment(explanation["at"])).total_seconds()) in OLD_S:
        output.line(texts("why.as_of", age=age(explanation["at"], session.now())))
    if explanation["starts_now"]:
        output.line(texts("why.starts_now"))
    if explanation["reasons"]:
        output.heading(texts("why.because"))
        for reason in explanation["reasons"]:
            code = output.style(reason["code"], "yellow")
            output.line(f"  {code}: {reason_sentence(texts, reason)}")
    _ahead(session, explanation)
    hold = explanation["hold"]
    if hold is not None:
        output.line(texts("why.hold", seats=seats(hold["placement"]), until=local(hold["until"])))
        if hold["victims"]:
            output.line(texts("why.victims", jobs=", ".join(hold["victims"])))
    reservation = explanation.get("reservation")
    if reservation:
        output.line(texts("why.reserved", seats=seats(reservation["placement"]), time=local(reservation["at"])))
    _expected(session, explanation)
    if explanation["counterfactuals"]:
        output.heading(texts("why.changes"))
        for change in explanation["counterfactuals"]:
            output.line("  " + _change(session, change))
    _advice(session, explanation)


def _expected(session: Session, explanation: Explanation) -> None:
    """When it starts: for certain, or as promised, with the interval that should hold for eight of ten."""
    output, texts, now = session.output, session.texts, session.now()
    if explanation["eta"]:
        output.line(texts("why.eta", time=local(explanation["eta"]), wait=until(explanation["eta"], now)))
    eta = explanation.get("forecast")
    if eta:
        late = local(eta["p90"]) if eta["p90"] else texts("why.far")
        output.line(texts("why.interval", early=local(eta["p10"]), late=late, age=age(eta["made_at"], now)))


def _change(session: Session, change: Counterfactual) -> str:
    """What would be different, and when it would start then."""
    texts, kind, at = session.texts, change.get("kind", ""), change.get("at")
    key = f"why.do_{kind}"
    words = texts(key, value=change.get("value", "")) if texts.lang != "en" and texts.has(key) else change["change"]
    if change["starts_now"]:
        return texts("why.change_now", change=words)
    if at:
        return texts("why.change_at", change=words, wait=until(at, session.now()))
    return texts("why.change_sooner", change=words)


def _ahead(session: Session, explanation: Explanation) -> None:
    ahead = explanation["ahead"]
    if not ahead:
        return
    session.output.heading(session.texts("why.ahead", count=len(ahead)))
    rows = [
        [
            job.get("name") or job["job"] or session.texts("word.hidden"),
            owner(job["tenant"], job["user"]),
            job["queue"],
            cards(job["milli"]),
            age(job["since"], session.now()),
        ]
        for job in ahead[:SHOWN_AHEAD]
    ]
    session.output.table(AHEAD, rows, indent=2)
    if len(ahead) > SHOWN_AHEAD:
        session.output.line("  " + session.texts("why.more", count=len(ahead) - SHOWN_AHEAD))


def _advice(session: Session, explanation: Explanation) -> None:
    """One command line to try next, by the first reason."""
    if not explanation["reasons"]:
        return
    code = explanation["reasons"][0]["code"]
    key = f"try.{code}" if session.texts.has(f"try.{code}") else "try.default"
    name = explanation["job"] or explanation["name"]
    queue = explanation["reasons"][0].get("queue") or explanation["queue"]
    session.output.line(session.texts("why.try", command=session.texts(key, job=name, queue=queue)))
