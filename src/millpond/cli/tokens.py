"""``millpond tokens``: bearer secrets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from millpond.cli.confirm import confirmed
from millpond.cli.errors import Exit
from millpond.cli.lazy import argument, group, option, verb
from millpond.cli.output import Cell, Column
from millpond.cli.session import Session
from millpond.cli.values import local, moment
from millpond.domain.amounts import duration_parse
from millpond.sdk.answers import Token

COLUMNS = (
    Column("id"),
    Column("user"),
    Column("label", fold=True),
    Column("scopes", fold=True),
    Column("state"),
    Column("created"),
    Column("expires"),
)


tokens = group("tokens")


def _row(session: Session, token: Token) -> list[Cell | str]:
    return [
        token["id"],
        token["user"],
        token["label"],
        " ".join(token["scopes"]),
        _state(session, token),
        local(token["created_at"]),
        local(token["expires_at"]),
    ]


def _state(session: Session, token: Token) -> Cell:
    if token["revoked_at"]:
        return Cell(session.texts("tokens.revoked"), "red")
    if token["expires_at"] and moment(token["expires_at"]) <= session.now():
        return Cell(session.texts("tokens.expired"), "red")
    return Cell(session.texts("tokens.valid"), "green")


@verb(tokens, "list")
def tokens_list(session: Session) -> None:
    """Tokens without their secrets."""
    found = list(session.client.tokens.list())
    if session.json:
        session.output.items(found)
    elif not found:
        session.output.note(session.texts("tokens.empty"))
    else:
        session.output.table(COLUMNS, [_row(session, token) for token in found])


@verb(tokens, "create")
@option("--user", metavar="NAME", default="", help="tokens.user")
@option("--label", metavar="TEXT", default="", help="tokens.label")
@option("--scope", "scopes", metavar="ACTION", multiple=True, help="tokens.scope")
@option("--expires", metavar="TIME", default="", help="tokens.expires")
def tokens_create(session: Session, user: str, label: str, scopes: Sequence[str], expires: str) -> None:
    """The secret goes to stdout, once."""
    end = (session.now() + timedelta(seconds=duration_parse(expires))).isoformat() if expires else None
    created = session.client.tokens.create(user=user, label=label, scopes=scopes, expires_at=end)
    if session.json:
        session.output.data(created)
        return
    session.output.line(created["secret"])
    session.output.note(session.texts("tokens.created", id=created["token"]["id"], user=created["token"]["user"]))


@verb(tokens, "revoke")
@argument("token_id", metavar="ID")
@option("-y", "--yes", is_flag=True, help="confirm.yes")
def tokens_revoke(session: Session, token_id: str, yes: bool) -> int | None:
    """It stops working at once."""
    if not confirmed(session, session.texts("tokens.ask", id=token_id), yes=yes):
        return Exit.CANCELLED
    session.client.tokens.revoke(token_id)
    if session.json:
        session.output.data({"revoked": token_id})
    else:
        session.output.note(session.texts("tokens.revoke_done", id=token_id))
    return None
