"""``millpond offer``: what would happen to a job, without submitting it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millpond.cli.job_input import job_body, job_from_command_line, job_options
from millpond.cli.lazy import argument, command
from millpond.cli.session import Session
from millpond.cli.why import explanation_write


@command("offer", trailing=True)
@argument("words", nargs=-1, metavar="[FILE]")
@job_options
def offer(session: Session, words: Sequence[str], **flags: Any) -> None:
    """As `run`, but nothing is submitted; a command is not needed."""
    if not words and not flags.get("name"):
        # An offer is about cards; what would run on them does not matter.
        flags["name"] = "offer"
        words = ("true",)
    spec = job_from_command_line(session, words, flags)
    explanation = session.client.offers.create(job_body(session, spec))
    if session.json:
        session.output.data(explanation)
        return
    session.output.line(
        session.texts("offer.headline", name=explanation["name"] or spec.name, queue=explanation["queue"])
    )
    explanation_write(session, explanation)
