"""Commands beside a running rank, over a WebSocket.

The client's first message is JSON ``{"argv": [...], "rows"?, "columns"?}``.  Then binary messages carry bytes both
ways; the client may send ``{"rows", "columns"}`` when its terminal changes and ``{"eof": true}`` when its input ends.
The server's last message is ``{"exit": code}``, or a problem document.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from millpond.api.bodies import text_check
from millpond.api.context import ApiState, secret_of, state_of
from millpond.api.problems import problem_of, problem_response
from millpond.authz.actors import Actor
from millpond.domain.amounts import integer_parse
from millpond.domain.errors import Conflict, InvalidInput, MillpondError, Unavailable
from millpond.domain.records import AttemptRecord
from millpond.engines.base import ExecSession
from millpond.services.execs import exec_open, exec_target
from millpond.services.identity import actor_authenticate
from millpond.services.jobs import JobRef

router = APIRouter()

EXECS_MAX = 64
FIRST_S = 10.0
READ_S = 0.5
LOOK_S = 15.0
"""How often it is looked at again whether who asked still may."""

MESSAGE_MAX = 1 << 20


@router.websocket("/v1/jobs/{job}/exec")
async def job_exec(socket: WebSocket, job: str) -> None:
    """Run a command beside a rank: ``?rank=0&tty=false&tenant=&project=``."""
    state = state_of(socket)
    try:
        rank, tty, ref = _asked(socket, job)
        actor, attempt = await to_thread.run_sync(_permitted, state, secret_of(socket.headers), ref, rank)
    except MillpondError as error:
        await socket.send_denial_response(problem_response(problem_of(error)))
        return
    await socket.accept()
    state.metrics.execs.inc()
    try:
        await _serve(socket, state, actor, attempt, rank, tty)
    except MillpondError as error:
        with suppress(RuntimeError, WebSocketDisconnect):
            await socket.send_text(json.dumps(problem_of(error).model_dump(mode="json", exclude_none=True)))
            await socket.close(1008)
    except WebSocketDisconnect:
        pass
    finally:
        state.metrics.execs.dec()


def _asked(socket: WebSocket, job: str) -> tuple[int, bool, JobRef]:
    query = socket.query_params
    text_check(job + "".join(query.values()), "address")
    rank = integer_parse(query.get("rank", "0"), "rank")
    tty = query.get("tty", "false")
    if tty not in {"true", "false", "1", "0"}:
        raise InvalidInput(f"{tty[:20]!r} is neither true nor false", hint="write tty=true")
    if len(job) > 128:
        raise InvalidInput("this is no job's name")
    return rank, tty in {"true", "1"}, JobRef(job, query.get("tenant", ""), query.get("project", ""))


def _permitted(state: ApiState, secret: str, ref: JobRef, rank: int) -> tuple[Actor, AttemptRecord]:
    actor = actor_authenticate(state.services, secret)
    attempt = exec_target(state.services, actor, ref, rank)
    if state.exec_threads.available_tokens < 1:
        raise Unavailable("too many exec sessions are open", code="TOO_MANY_EXECS", hint="try again later")
    return actor, attempt


async def _serve(
    socket: WebSocket, state: ApiState, actor: Actor, attempt: AttemptRecord, rank: int, tty: bool
) -> None:
    try:
        async with asyncio.timeout(FIRST_S):
            first = _control(await socket.receive_text())
    except (TimeoutError, KeyError) as error:
        raise InvalidInput("the first message is not a command", hint='send {"argv": ["bash"]}') from error
    argv = first.get("argv")
    if not isinstance(argv, list) or not all(isinstance(part, str) for part in argv):
        raise InvalidInput("the first message has no argv", hint='send {"argv": ["bash"]}')
    session = await to_thread.run_sync(lambda: exec_open(state.services, actor, attempt, rank, argv, tty=tty))
    try:
        await _resize(session, first)
        still = asyncio.create_task(_still_permitted(socket, state, attempt, rank))
        await _bridge(socket, session, state.exec_threads, still)
    finally:
        await to_thread.run_sync(session.close)


async def _still_permitted(socket: WebSocket, state: ApiState, attempt: AttemptRecord, rank: int) -> None:
    """Raises `MillpondError` once the token or the right to run commands is gone; otherwise without end."""
    secret, ref = secret_of(socket.headers), JobRef(attempt.job)

    def look() -> None:
        # A job that leaves, or a database that is away for a moment, says nothing about the caller.
        with suppress(Conflict, Unavailable):
            exec_target(state.services, actor_authenticate(state.services, secret), ref, rank)

    while True:
        await asyncio.sleep(LOOK_S)
        await to_thread.run_sync(look)


async def _bridge(socket: WebSocket, session: ExecSession, threads: CapacityLimiter, still: asyncio.Task[None]) -> None:
    """Carry bytes both ways until the command ends, the client hangs up, or `still` raises."""
    output = asyncio.create_task(_output(socket, session, threads))
    entry = asyncio.create_task(_input(socket, session))
    try:
        done, _ = await asyncio.wait({output, entry, still}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (output, entry, still):
            task.cancel()
        await asyncio.gather(output, entry, still, return_exceptions=True)


async def _output(socket: WebSocket, session: ExecSession, threads: CapacityLimiter) -> None:
    while (data := await to_thread.run_sync(session.read, READ_S, limiter=threads)) != b"":
        if data:
            await socket.send_bytes(data)
    code = session.exit_code()
    while code is None:
        await asyncio.sleep(0.02)
        code = await to_thread.run_sync(session.exit_code)
    await socket.send_text(json.dumps({"exit": code}))
    await socket.close()


async def _input(socket: WebSocket, session: ExecSession) -> None:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        data = message.get("bytes")
        if data:
            await to_thread.run_sync(session.write, data)
        elif message.get("text"):
            control = _control(message["text"])
            if control.get("eof") is True:
                await to_thread.run_sync(session.finish)
            else:
                await _resize(session, control)


async def _resize(session: ExecSession, control: dict[str, object]) -> None:
    rows, columns = control.get("rows"), control.get("columns")
    if isinstance(rows, int) and isinstance(columns, int) and 0 < rows < 10_000 and 0 < columns < 10_000:
        await to_thread.run_sync(session.resize, rows, columns)


def _control(text: str) -> dict[str, object]:
    """A control message.  `InvalidInput` for anything but a JSON object."""
    if len(text) > MESSAGE_MAX:
        raise InvalidInput("the message is too long")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("a text message is not JSON", hint="send input as binary messages") from error
    if not isinstance(value, dict):
        raise InvalidInput("a text message is not a JSON object", hint="send input as binary messages")
    return value
