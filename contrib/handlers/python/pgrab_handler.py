"""Handlers for pgrab tasks: functions in a process that stays, called once per task.

    from pgrab_handler import run, task

    @task("send_email")
    def send_email(user_id: int, subject: str = "hello"):
        print(f"to {user_id}: {subject}")

    run()

A node starts this file, as a [pool NAME] section of its own file says, and hands it the tasks whose kind is send_email.
See docs/handlers.md.  Needs nothing but Python 3.9 or later.
"""
from __future__ import annotations

import asyncio
import collections
import contextlib
import contextvars
import inspect
import json
import os
import queue
import re
import signal
import socket
import sys
import threading
import traceback
import types
import typing
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Callable, Optional, Union

__all__ = ["Context", "Fail", "StepRefused", "Stopped", "TimedOut", "Waiting", "call", "run", "task"]
__version__ = "0.1.0"

PROTOCOLS = (2, 1)  # the best first
LINE_MAX = 1024 * 1024
STEP_MAX = 64 * 1024
DEPTH_MAX = 900  # a node reads 1,000 levels, and ends a process that sends more
STEPS_WAIT = 500  # of one run, for their answers: a node refuses more than 1,000
RETRY_MAX = 365 * 86400  # seconds
WAIT_MAX = 3650 * 86400
Retry = Union[str, float, int]


class Fail(Exception):
    """Raised by a handler: this run has failed.  retry: "default", "no", or in how many seconds it is tried again."""

    def __init__(self, error: str, retry: Retry = "default") -> None:
        super().__init__(error)
        number = isinstance(retry, (int, float)) and not isinstance(retry, bool)
        if retry not in ("default", "no") and not (number and 0 <= retry <= RETRY_MAX):
            raise ValueError(f"retry cannot be {retry!r}: it is \"default\", \"no\", or a number of seconds from 0 to {RETRY_MAX}")
        self.retry = retry


class Stopped(BaseException):
    """Raised inside a handler whose run must stop; reason: timeout, cancel, fenced, shutdown or preempted, or
    ended: it has failed, or waits, and this is for what it had begun.

    Not an Exception, so that `except Exception` lets it pass.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class StepRefused(BaseException):
    """Raised by ctx.step(): the step was not recorded, so the run has to end.

    Not an Exception, so that `except Exception` lets it pass.
    """


class TimedOut(Exception):
    """Raised by ctx.wait(): the signal has not come in time."""


class Waiting(BaseException):
    """Raised by ctx.wait() to end this run: the task runs again, from the top, when the signal has come or its time is over.

    Not an Exception, so that `except Exception` lets it pass.
    """

    def __init__(self, name: str, timeout: Optional[float]) -> None:
        super().__init__(f"waits for signal {name}")
        self.name, self.timeout = name, timeout


class Context:
    """What a handler is told of its run, and what it may say of it."""

    _ask: Optional[Callable[[Context, str, Optional[str]], Future[dict[str, Any]]]] = None
    """Has a step recorded, or with None looks for it.  None: the node is too old for that."""
    _awaits = False  # a coroutine, whose steps are awaited
    _over: Union[StepRefused, Waiting, None] = None  # why the run ends now, whatever its handler makes of it
    _has_failed = False
    _idle: Optional[Callable[[], None]] = None  # called when no step is under way, once the handler has ended

    def __init__(self, message: dict[str, Any], send: Callable[[dict[str, Any]], None]) -> None:
        self._run: int = message["run"]
        self._send = send
        self.id: int = message["id"]
        self.kind: str = message["kind"]
        self.attempt: int = message["attempt"]
        self.max_attempts: int = message["max_attempts"]
        self.fence: str = message["fence"]
        self.fire_at: str = message["fire_at"]
        self.idempotency_key = f"{self.id}-{self.fire_at}"
        """The same in each attempt of a fire, and in no other fire."""
        self.timeout: float = message["timeout"]
        self.traceparent: Optional[str] = message.get("traceparent")
        self.name: Optional[str] = message.get("name")
        self.command: str = message.get("command", "")
        self.args: dict[str, Any] = message["args"]
        self.parents: dict[str, Any] = message.get("parents", {})
        self.signal: Any = message.get("signal")
        self.stop_reason: Optional[str] = None
        self._recorded = set(message.get("steps", []))  # by an earlier attempt
        self._results: dict[str, Any] = {}
        self._under_way: dict[str, Optional[Future[dict[str, Any]]]] = {}
        self._doer: dict[str, Any] = {}  # of a step: a task of the loop, or the number of a thread
        self._steps_lock = threading.Lock()  # of the next two
        self._unanswered = 0  # step messages
        self._unsent: collections.deque[bytes] = collections.deque()

    @property
    def stopping(self) -> bool:
        """True when the run is to stop.  What runs in a thread of its own has to look."""
        return self.stop_reason is not None

    def check(self) -> None:
        """Raises Stopped when the run is to stop."""
        if self.stop_reason is not None:
            raise Stopped(self.stop_reason)

    def _answer_all(self, answer: Callable[[Future[dict[str, Any]]], None], but: Any = None) -> None:
        """Of the steps that are under way, but those of one doer."""
        for name, future in list(self._under_way.items()):
            if future is not None and (but is None or self._doer.get(name) != but):
                with contextlib.suppress(InvalidStateError):  # it has one already
                    answer(future)

    def progress(self, percent: Optional[float] = None, text: Optional[str] = None) -> None:
        """How far it has come, 0 to 100, and in words."""
        if percent is not None:
            percent = min(max(float(percent), 0.0), 100.0)
        self._send({"type": "progress", "run": self._run, "percent": percent, "text": None if text is None else str(text)})

    def log(self, text: str) -> None:
        """A line of the run's output."""
        self._send({"type": "log", "run": self._run, "text": str(text)})


    def step(self, name: str, function: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """What function(*args, **more) returns, called at most once in a fire if nothing dies between its end and the record: a
        later attempt gets what was recorded.  In a coroutine: `await ctx.step(...)`, and function may be one, too.

        The result comes back as JSON would give it.  Raises StepRefused when it cannot be recorded.
        """
        if isinstance(name, str) and name.startswith("wait:"):
            raise ValueError(f"a step cannot be named {name!r:.200}: names that begin with wait: are those of waits")
        return self._step_awaited(name, function, args, more) if self._awaits else self._step_plain(name, function, args, more)

    def wait(self, name: str, timeout: Union[float, timedelta, None] = None) -> Any:
        """What came with this signal of the task's fire.  In a coroutine: `await ctx.wait(...)`.

        If it has not come, the run ends here, and its process is free for others; the task runs again from the top when the signal
        comes, and this call returns then.  That costs no attempt.  timeout: seconds; when they are over, the task runs again, too,
        and TimedOut is raised here.
        """
        seconds = _wait_seconds(name, timeout)
        return self._wait_awaited(name, seconds) if self._awaits else self._wait_plain(name, seconds)

    def sleep(self, name: str, seconds: Union[float, timedelta]) -> Any:
        """Waits for so long, as wait() does, or until a signal of this name comes.  In a coroutine: `await ctx.sleep(...)`."""
        if self._awaits:
            return self._sleep_awaited(name, seconds)
        with contextlib.suppress(TimedOut):
            self.wait(name, seconds)

    async def _sleep_awaited(self, name: str, seconds: Union[float, timedelta]) -> None:
        with contextlib.suppress(TimedOut):
            await self.wait(name, seconds)

    def _wait_plain(self, name: str, timeout: Optional[float]) -> Any:
        step = f"wait:{name}"
        if not self._has_result(step):
            try:
                self._take(step, self._send_step(step, None).result())
            finally:
                self._ends(step)
        return self._waited(name, timeout)

    async def _wait_awaited(self, name: str, timeout: Optional[float]) -> Any:
        step = f"wait:{name}"
        if not self._has_result(step):
            try:
                self._take(step, await asyncio.wrap_future(self._send_step(step, None)))
            finally:
                self._ends(step)
        return self._waited(name, timeout)

    def _waited(self, name: str, timeout: Optional[float]) -> Any:
        came = self._results.get(f"wait:{name}")
        if came is None:
            self._over = self._over or Waiting(name, timeout)
            raise self._over
        if "payload" not in came:
            raise TimedOut(f"signal {name} did not come in time")
        return came["payload"]

    def _step_plain(self, name: str, function: Callable[..., Any], args: Any, more: Any) -> Any:
        if self._has_result(name):
            return self._results[name]
        try:
            if name in self._recorded and self._take(name, self._send_step(name, None).result()):
                return self._results[name]
            self.check()
            self._take(name, self._send_step(name, self._step_json(name, function(*args, **more))).result())
            return self._results[name]
        finally:
            self._ends(name)

    async def _step_awaited(self, name: str, function: Callable[..., Any], args: Any, more: Any) -> Any:
        if self._has_result(name):
            return self._results[name]
        try:
            if name in self._recorded and self._take(name, await asyncio.wrap_future(self._send_step(name, None))):
                return self._results[name]
            value = function(*args, **more)
            value = await value if inspect.isawaitable(value) else value
            self._take(name, await asyncio.wrap_future(self._send_step(name, self._step_json(name, value))))
            return self._results[name]
        finally:
            self._ends(name)

    def _has_result(self, name: str) -> bool:
        """Of this attempt; if not, the step is under way from now on."""
        if self._over is not None:
            raise self._over
        if not isinstance(name, str) or not 1 <= len(name.encode()) <= 200 or "\0" in name:
            raise ValueError(f"the name of a step is a text of 1 to 200 bytes without NUL, not {name!r:.200}")
        if self._ask is None:
            raise RuntimeError("this node is too old to record steps: upgrade it")
        if name in self._under_way:
            raise ValueError(f"step {name} is under way already: steps that go on side by side need different names")
        if name in self._results:
            return True
        self._doer[name] = asyncio.current_task() if self._awaits else threading.get_ident()
        self._under_way[name] = None
        if self._over is not None:  # the run has ended at this moment, which another thread decides
            self._ends(name)
            raise self._over
        return False

    def _ends(self, name: str) -> None:
        self._under_way.pop(name, None)
        if not self._under_way and self._idle is not None:
            self._idle()

    def _end(self, result: bytes) -> bytes:
        """What counts: a step may have been refused since the handler returned.  No more steps begin."""
        over, self._over = self._over, self._over or StepRefused("this run has ended")
        return result if over is None or self._has_failed else _failed(self, over)

    def _step_json(self, name: str, value: Any) -> str:
        try:
            text = _json(value)
        except RecursionError as e:
            raise _too_deep(f"what step {name} returned") from e
        except (TypeError, ValueError) as e:
            raise Fail(f"what step {name} returned is no JSON: {e}") from e
        data = text.encode("utf-8", "replace")
        if len(data) > STEP_MAX:
            raise Fail(f"the result of step {name} is {len(data)} bytes long, and at most {STEP_MAX} are "
                       "kept: put it in a table and return its key")
        if _is_deep(data, DEPTH_MAX):
            raise _too_deep(f"what step {name} returned")
        return text

    def _send_step(self, name: str, text: Optional[str]) -> Future[dict[str, Any]]:
        assert self._ask is not None
        return self._ask(self, name, text)

    def _take(self, name: str, answer: dict[str, Any]) -> bool:
        """True: it is recorded, and its result known."""
        if "error" in answer:
            self._over = StepRefused(f"step {name} was not recorded: {answer['error']}")
            raise self._over
        if answer["recorded"]:
            self._results[name] = answer.get("result")
        return bool(answer["recorded"])


def _wait_seconds(name: Any, timeout: Union[float, timedelta, None]) -> Optional[float]:
    if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9_.:-]{1,100}", name):
        raise ValueError(f"the name of a signal is 1 to 100 letters, digits, '_', '-', '.' or ':', not {name!r:.200}")
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if seconds is not None and not 0 <= seconds <= WAIT_MAX:
        raise ValueError(f"a timeout cannot be {timeout!r}: it is None, or a number of seconds from 0 to {WAIT_MAX}")
    return seconds


# --- handlers and their schemas


class _Handler:
    def __init__(self, kind: str, function: Callable[..., Any], schema: Optional[dict[str, Any]]) -> None:
        self.kind, self.function = kind, function
        self.is_async = inspect.iscoroutinefunction(function)
        parameters = inspect.signature(function).parameters
        self.takes_context = "ctx" in parameters
        self.takes_args = "args" in parameters
        self.schema = schema if schema is not None else None if self.takes_args else _schema_of(function)

    def call(self, ctx: Context) -> Any:
        given = {"args": ctx.args} if self.takes_args else dict(ctx.args)
        if self.takes_context:
            given["ctx"] = ctx
        return self.function(**given)


_handlers: dict[str, _Handler] = {}


def task(kind: str, schema: Optional[dict[str, Any]] = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a function the handler of a kind.

    The members of the task's args come as arguments of these names; a parameter `args` takes all of them as one dict instead, and a
    parameter `ctx` the Context.  schema: JSON Schema of the args; without one it is made from the function's type hints.
    """
    if not re.fullmatch("[a-z][a-z0-9_]{0,31}", kind):
        raise ValueError(f"{kind!r} is not a kind: a lower-case letter, then lower-case letters, digits and _, at most 32 characters")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if kind in _handlers:
            raise ValueError(f"there are two handlers of kind {kind}")
        _handlers[kind] = _Handler(kind, function, schema)
        return function
    return register


_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean", list: "array", dict: "object", type(None): "null"}


def _type_schema(hint: Any) -> dict[str, Any]:
    """What a type hint says, as far as JSON Schema can say it; {} else."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if hint in _TYPES:
        return {"type": _TYPES[hint]}
    if origin is list and inside:
        return {"type": "array", "items": _type_schema(inside[0])}
    if origin is dict:
        return {"type": "object"}
    if origin is typing.Literal:
        return {"enum": list(inside)}
    if origin in (Union, getattr(types, "UnionType", Union)):
        parts = [_type_schema(part) for part in inside]
        if all(set(part) == {"type"} for part in parts):
            return {"type": [part["type"] for part in parts]}
    return {}


def _schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    hints = {}
    with contextlib.suppress(Exception):  # a hint that names what is not there, or is no hint at all
        hints = typing.get_type_hints(function)
    properties, required, more = {}, [], False
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            more = True
        elif name != "ctx" and parameter.kind is not parameter.VAR_POSITIONAL:
            properties[name] = _type_schema(hints.get(name))
            if parameter.default is parameter.empty:
                required.append(name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": more}


def _is(kind: str, value: Any) -> bool:
    if kind == "integer":
        return not isinstance(value, bool) and isinstance(value, (int, float)) and value % 1 == 0
    if kind == "number":
        return not isinstance(value, bool) and isinstance(value, (int, float))
    return next((_TYPES[one] == kind for one in (bool, str, list, dict, type(None)) if isinstance(value, one)), False)


def _misfit(schema: Any, value: Any, at: str) -> Optional[str]:
    """Why a value does not fit, in the server's words; types, enum and members only."""
    if schema is False:
        return f"{at} is unknown"
    if not isinstance(schema, dict):
        return None
    kinds = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", [])
    if kinds and not any(_is(kind, value) for kind in kinds):
        return f"{at} must be of type {' or '.join(kinds)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{at} must be one of {json.dumps(schema['enum'])}"
    parts: list[tuple[Any, Any, str]] = []
    if isinstance(value, dict):
        missing = next((name for name in schema.get("required", []) if name not in value), None)
        if missing is not None:
            return f"{at}.{missing} is missing"
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        parts = [(known.get(name, others), member, f"{at}.{name}") for name, member in value.items()]
    elif isinstance(value, list):
        parts = [(schema.get("items"), member, f"{at}[{n}]") for n, member in enumerate(value)]
    return next((why for why in (_misfit(*part) for part in parts) if why is not None), None)


def _remember(steps: dict[str, Any], waits: dict[str, Any]) -> Callable[[Context, str, Optional[str]], Future[dict[str, Any]]]:
    """Records steps here: for tests of handlers."""
    def ask(ctx: Context, name: str, text: Optional[str]) -> Future[dict[str, Any]]:
        if text is not None:
            steps.setdefault(name, json.loads(text))
        answered: Future[dict[str, Any]] = Future()
        known = waits if name in waits else steps
        answered.set_result({"recorded": True, "result": known[name]} if name in known else {"recorded": False})
        return answered
    return ask


def call(kind: str, args: Optional[dict[str, Any]] = None, **context: Any) -> Any:
    """Calls a handler as a node would, for tests: args that a row could not have are a ValueError, a coroutine is awaited, and the
    result is what a child in a chain would find.  Where a loop runs already, the coroutine is returned as it is.  steps={"name": result}:
    what an earlier attempt has recorded, and where this one records; waits={"name": payload}: signals that have come.  One that has not
    is a Waiting.
    """
    handler = _handlers.get(kind)
    if handler is None:
        raise ValueError(f"there is no handler of kind {kind}")
    given = json.loads(json.dumps({} if args is None else args))
    why = _misfit({**(handler.schema or {}), "type": "object"}, given, "args")
    if why is not None:
        raise ValueError(f"{why}, says the handler of kind {kind}")
    message = {"run": 1, "id": 1, "kind": kind, "attempt": 1, "max_attempts": 3, "fence": "0-0", "fire_at": "1970-01-01T00:00:00.000000Z",
               "timeout": 3600.0, "args": given, **context}
    ctx = Context(message, lambda sent: None)
    waits = {f"wait:{name}": {"payload": payload} for name, payload in context.get("waits", {}).items()}
    ctx._ask, ctx._awaits = _remember(context.get("steps", {}), waits), handler.is_async
    value = handler.call(ctx)
    if inspect.iscoroutine(value):
        try:
            asyncio.get_running_loop()
            return value
        except RuntimeError:
            value = asyncio.run(value)
    return json.loads(_result_json(value))


# --- the conversation with the node


def _spoken() -> Optional[int]:
    """The version of the protocol that node and library both know."""
    known = os.environ.get("PGRAB_HANDLER_PROTOCOL", "").split()
    return next((version for version in PROTOCOLS if str(version) in known), None)


class _Wire:
    """Lines out, by any thread; the reading is the engine's."""

    def __init__(self, fd_in: int, fd_out: int) -> None:
        self.fd_in, self.fd_out = fd_in, fd_out
        self.lock = threading.Lock()
        self.writer = 0  # the thread that is in the middle of a line
        self.put_off: Optional[Callable[[], None]] = None  # what has to wait until it is out
        for fd in (fd_in, fd_out):
            os.set_inheritable(fd, False)

    def write(self, data: bytes) -> None:
        with self.lock:
            self.writer = threading.get_ident()
            try:
                while data:
                    data = data[os.write(self.fd_out, data):]
            finally:
                put_off, self.put_off = self.put_off, None
                self.writer = 0
        if put_off is not None:
            put_off()

    def send(self, message: dict[str, Any]) -> None:
        self.write(_line(message))


_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _shown(message: dict[str, Any]) -> dict[str, Any]:
    """A node reads a text up to its first U+0000.  In a value, which it does not read, that stands for
    itself.
    """
    texts = {key: message[key] for key in ("text", "error", "detail") if message.get(key) is not None}
    return {**message, **{key: text.replace("\0", "\ufffd") for key, text in texts.items()}}


def _line(message: dict[str, Any]) -> bytes:
    line = _json(_shown(message)).encode("utf-8", "replace") + b"\n"
    if len(line) <= LINE_MAX:
        return line
    if message["type"] == "result":
        return _fitting(message["run"], line)
    return _line({**message, "text": message["text"][:LINE_MAX // 8]})


def _fitting(run: int, result: bytes) -> bytes:
    if len(result) <= LINE_MAX:
        return result
    error = f"the result is {len(result)} bytes long, at most {LINE_MAX} can be sent: put it in a table"
    return _line({"type": "result", "run": run, "ok": False, "retry": "no", "error": error})


_brackets = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|([\[{])|[\]}]')


def _is_deep(text: bytes, levels: int) -> bool:
    """Are its arrays and objects nested in more levels than that?"""
    if text.count(b"[") + text.count(b"{") <= levels:
        return False
    depth = 0
    for found in _brackets.finditer(text):
        if found[1]:
            depth += 1
        elif found[0][:1] != b'"':
            depth -= 1
        if depth > levels:
            return True
    return False


def _too_deep(what: str) -> Fail:
    return Fail(f"{what} is nested too deep, and at most {DEPTH_MAX} levels can be sent: put it in a table",
                retry="no")


def _result_json(value: Any) -> str:
    try:
        text = _json(value)
    except RecursionError as e:
        raise _too_deep("what the handler returned") from e
    except (TypeError, ValueError) as e:
        raise Fail(f"what the handler returned is no JSON: {e}") from e
    if len(text) <= LINE_MAX and _is_deep(text.encode("utf-8", "replace"), DEPTH_MAX):  # else it is too long
        raise _too_deep("what the handler returned")
    return text


def _succeeded(ctx: Context, value: Any) -> bytes:
    if ctx._over is not None:
        return _failed(ctx, ctx._over)
    try:
        text = _result_json(value)
    except Fail as e:
        return _failed(ctx, e)
    head = _json({"type": "result", "run": ctx._run, "ok": True})
    return _fitting(ctx._run, f'{head[:-1]},"value":{text}}}\n'.encode("utf-8", "replace"))


def _text(error: BaseException) -> str:
    try:
        return str(error)[:2000]
    except Exception:  # theirs
        return "(its text cannot be shown)"


def _failed(ctx: Context, error: BaseException) -> bytes:
    result = _failure(ctx, error)
    ctx._has_failed = True
    ctx.stop_reason = ctx.stop_reason or "ended"  # what it has begun in threads looks at that
    return result


def _failure(ctx: Context, error: BaseException) -> bytes:
    message: dict[str, Any] = {"type": "result", "run": ctx._run, "ok": False, "error": f"{type(error).__name__}: {_text(error)}"[:2000]}
    if isinstance(error, Fail):
        return _line({**message, "error": _text(error), "retry": error.retry})
    if isinstance(error, Waiting):
        return _line({"type": "result", "run": ctx._run, "ok": False, "wait": error.name, "timeout": error.timeout})
    if isinstance(error, StepRefused):
        return _line({**message, "error": _text(error)})
    if isinstance(error, (Stopped, asyncio.CancelledError)):
        return _line({**message, "error": f"stopped: {ctx.stop_reason}"})
    # From the handler on: our own frames say nothing.
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__ and trace.tb_next is not None:
        trace = trace.tb_next
    detail = "".join(traceback.format_exception(type(error), error, trace))
    return _line({**message, "detail": detail[-20000:]})


def _result_of(ctx: Context, handler: _Handler) -> bytes:
    """Of a plain function in a thread of its own."""
    try:
        ctx.check()  # it may have been told to stop while it waited
        return _succeeded(ctx, handler.call(ctx))
    except BaseException as e:  # whatever it is, nobody else answers
        return _failed(ctx, e)


def _flush() -> None:
    """What was printed comes before the result; a handler may have closed or replaced the stream."""
    for stream in (sys.stdout, sys.__stdout__):
        with contextlib.suppress(Exception):
            stream.flush()  # type: ignore[union-attr]


_run_of_line = re.compile(rb'"run": ?(\d+)')


class _Engine:
    """What all ways to run handlers share: taking messages apart."""

    def __init__(self, wire: _Wire) -> None:
        self.wire = wire
        self.rest = b""
        self.contexts: dict[int, Context] = {}
        self.version = _spoken() or 0

    def hello(self, concurrency: int) -> None:
        kinds = {kind: {"schema": handler.schema} if handler.schema else {} for kind, handler in _handlers.items()}
        self.wire.send({"type": "hello", "version": self.version, "kinds": kinds, "concurrency": concurrency,
                        "library": f"pgrab_handler {__version__}, Python {sys.version.split()[0]}"})

    def feed(self, data: bytes) -> None:
        """Takes whatever has been read."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError) as e:  # valid JSON, to PostgreSQL: too deep, a number of 5,000 digits
                self.refuse(line, e)
            else:
                self.take(message)

    def refuse(self, line: bytes, error: Exception) -> None:
        run = _run_of_line.search(line)
        if run is None:
            raise error
        ctx = self.contexts.get(int(run[1]))
        if ctx is not None:  # the answer to a step, or to a wait
            ctx._answer_all(lambda f: f.set_result({"recorded": False, "error": f"it cannot be read here: {type(error).__name__}"}))
            return
        self.wire.send({"type": "result", "run": int(run[1]), "ok": False, "retry": "no",
                        "error": f"the task cannot be read here: {type(error).__name__}: {error}"[:2000]})

    def take(self, message: dict[str, Any]) -> None:
        what = message["type"]
        if what == "ping":
            self.wire.send({"type": "pong", "n": message["n"]})
        elif what == "task":
            ctx = Context(message, self.wire.send)
            ctx._ask = self.ask if self.version >= 2 else None
            self.contexts[ctx._run] = ctx
            self.begin(ctx, _handlers[ctx.kind])
        elif what == "stop" and message["run"] in self.contexts:
            ctx = self.contexts[message["run"]]
            ctx.stop_reason = message["reason"]
            self.stop(ctx)
        elif what == "step" and message["run"] in self.contexts:
            self.answered(self.contexts[message["run"]], message)
        elif what == "end":
            self.end()

    def ask(self, ctx: Context, name: str, text: Optional[str]) -> Future[dict[str, Any]]:
        answered: Future[dict[str, Any]] = Future()
        ctx._under_way[name] = answered
        if text is None and ctx.stop_reason is not None and not ctx._awaits:  # the stop came before it could be told
            answered.set_exception(Stopped(ctx.stop_reason))
            return answered
        line = _json({"type": "step", "run": ctx._run, "name": name})
        line = line if text is None else f'{line[:-1]},"result":{text}}}'
        self.send_steps(ctx, line.encode("utf-8", "replace") + b"\n")
        return answered

    def send_steps(self, ctx: Context, *more: bytes, answers: int = 0) -> None:
        with ctx._steps_lock:
            ctx._unsent.extend(more)
            ctx._unanswered -= answers
            while ctx._unsent and ctx._unanswered < STEPS_WAIT:
                ctx._unanswered += 1
                self.wire.write(ctx._unsent.popleft())

    def answered(self, ctx: Context, message: dict[str, Any]) -> None:
        self.send_steps(ctx, answers=1)
        answered = ctx._under_way.get(message["name"])
        if answered is not None and not answered.done():
            answered.set_result(message)

    def settled(self, ctx: Context, result: bytes) -> bytes:
        """Of a plain function, when the steps that it has begun in threads of its own are over: the next
        attempt would run beside them.  Those of this thread are, and a stop at the wrong moment may have kept
        it from saying so.
        """
        ended: queue.SimpleQueue[None] = queue.SimpleQueue()
        ctx._idle = lambda: ended.put(None)
        for name in [name for name, doer in list(ctx._doer.items()) if doer == threading.get_ident()]:
            ctx._under_way.pop(name, None)
        while ctx._under_way:
            ended.get()
        result = ctx._end(result)
        while ctx._under_way:  # one that was begun at this moment
            ended.get()
        return result

    def done(self, ctx: Context, result: bytes) -> None:
        del self.contexts[ctx._run]
        _flush()
        self.wire.write(result)

    def read_for_ever(self) -> None:
        """In a thread of its own: the end of the descriptor is the end of the process."""
        while data := os.read(self.wire.fd_in, 65536):
            self.feed(data)
        self.end()

    def begin(self, ctx: Context, handler: _Handler) -> None:
        raise NotImplementedError

    def stop(self, ctx: Context) -> None:
        """Its context says so already; what waits for an answer is told."""
        ctx._answer_all(lambda f: f.set_exception(Stopped(ctx.stop_reason or "cancel")))

    def end(self) -> None:
        _flush()
        os._exit(0)


class _OneByOne(_Engine):
    """Handlers in the main thread, one at a time, which a stop interrupts; a second thread answers the node."""

    SIGNAL = signal.SIGUSR2

    def __init__(self, wire: _Wire) -> None:
        super().__init__(wire)
        self.tasks: queue.SimpleQueue[tuple[Context, _Handler]] = queue.SimpleQueue()
        self.current: Optional[Context] = None
        self.main = threading.get_ident()
        signal.signal(self.SIGNAL, self.interrupt)

    def interrupt(self, number: int = 0, frame: Any = None) -> None:
        if self.wire.writer == self.main:
            self.wire.put_off = self.interrupt
        elif self.current is not None and self.current.stop_reason is not None:
            self.current, ctx = None, self.current  # once
            raise Stopped(ctx.stop_reason or "cancel")

    def begin(self, ctx: Context, handler: _Handler) -> None:
        self.tasks.put((ctx, handler))

    def stop(self, ctx: Context) -> None:
        signal.pthread_kill(self.main, self.SIGNAL)
        ctx._answer_all(lambda f: f.set_exception(Stopped(ctx.stop_reason or "cancel")), but=self.main)

    def carry_out(self, ctx: Context, handler: _Handler) -> bytes:
        try:
            self.current = ctx
            ctx.check()  # it may have been told to stop while it waited
            result = _succeeded(ctx, handler.call(ctx))
            self.current = None
            return result
        except BaseException as e:  # whatever it is, nobody else answers
            self.current = None
            return _failed(ctx, e)

    def run(self) -> None:
        threading.Thread(target=self.read_for_ever, daemon=True).start()
        self.hello(1)
        while True:
            ctx, handler = self.tasks.get()
            try:
                result = self.carry_out(ctx, handler)
            except Stopped as e:  # it came while the exception before it was handled
                result = _failed(ctx, e)
            self.done(ctx, self.settled(ctx, result))


class _Threads(_Engine):
    """Handlers in threads, several at once; a stop is theirs to look for."""

    def __init__(self, wire: _Wire, concurrency: int) -> None:
        super().__init__(wire)
        self.concurrency = concurrency
        self.pool = ThreadPoolExecutor(concurrency)

    def begin(self, ctx: Context, handler: _Handler) -> None:
        self.pool.submit(self.carry_out, ctx, handler)

    def carry_out(self, ctx: Context, handler: _Handler) -> None:
        self.done(ctx, self.settled(ctx, _result_of(ctx, handler)))

    def run(self) -> None:
        self.hello(self.concurrency)
        self.read_for_ever()


_of_run: contextvars.ContextVar[set[Any]] = contextvars.ContextVar("_of_run")
"""What a run has begun: futures of threads, tasks of the loop."""


class _LoopThreads(ThreadPoolExecutor):
    """The threads beside a loop.  Remembers what a run starts in them (asyncio.to_thread, run_in_executor): no cancel ends it."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = super().submit(fn, *args, **kwargs)
        if fn not in (socket.getaddrinfo, socket.getnameinfo):  # the loop's own, and harmless
            mine = _of_run.get(set())
            mine.add(future)
            future.add_done_callback(mine.discard)
        return future


class _Loop(_Engine):
    """Handlers in an event loop, several at once; those that are no coroutines go to threads beside it.

    A run is answered when nothing of it goes on in threads, and when it has failed in tasks neither: a second attempt would run
    beside them.  So tasks that a failed run has begun are cancelled.  What a run leaves behind that has
    succeeded is its own affair, but for steps: a pool of connections may have tasks that live as long as the
    process.
    """

    def __init__(self, wire: _Wire, concurrency: int) -> None:
        super().__init__(wire)
        self.concurrency = concurrency
        self.threads = _LoopThreads(concurrency)
        self.tasks: dict[int, asyncio.Task[bytes]] = {}
        self.results: list[bytes] = []

    def begin(self, ctx: Context, handler: _Handler) -> None:
        ctx._awaits = handler.is_async
        if handler.is_async:
            futures: set[Any] = set()
            task = self.tasks[ctx._run] = self.loop.create_task(self.carry_out(ctx, handler, futures))
            task.add_done_callback(lambda _: self.over(ctx, task, futures))
        else:
            self.threads.submit(self.carry_out_plain, ctx, handler)

    def stop(self, ctx: Context) -> None:
        if ctx._run in self.tasks:
            if not self.tasks[ctx._run].cancel():  # the handler has ended, and steps go on
                for name in list(ctx._under_way):
                    ctx._doer[name].cancel()
        else:
            super().stop(ctx)

    def carry_out_plain(self, ctx: Context, handler: _Handler) -> None:
        result = self.settled(ctx, _result_of(ctx, handler))
        self.loop.call_soon_threadsafe(self.answer, ctx, result)

    async def carry_out(self, ctx: Context, handler: _Handler, futures: set[Any]) -> bytes:
        _of_run.set(futures)
        try:
            result = _succeeded(ctx, await handler.call(ctx))
            futures.difference_update([f for f in futures if isinstance(f, asyncio.Task)])
            return result
        except GeneratorExit:  # the loop ends
            raise
        except BaseException as e:  # whatever it is, nobody else answers
            for child in [f for f in futures if isinstance(f, asyncio.Task)]:
                child.cancel()
            return _failed(ctx, e)

    @staticmethod
    def make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **more)
        mine = _of_run.get(None)
        if mine is not None:
            mine.add(task)
            task.add_done_callback(mine.discard)
        return task

    def over(self, ctx: Context, task: asyncio.Task[bytes], futures: set[Any]) -> None:
        def again(_: Any = None) -> None:
            self.loop.call_soon_threadsafe(self.over, ctx, task, futures)

        ctx._idle = again
        busy = list(futures)
        if busy:
            busy[0].add_done_callback(again)
        elif not ctx._under_way and self.tasks.pop(ctx._run, None) is not None:  # else it has been answered
            # Cancelled before its first step: the handler was never called.
            result = _failed(ctx, asyncio.CancelledError()) if task.cancelled() else task.result()
            self.answer(ctx, ctx._end(result))

    def answer(self, ctx: Context, result: bytes) -> None:
        del self.contexts[ctx._run]
        if not self.results:  # those of one turn of the loop go together
            self.loop.call_soon(self.flush)
        self.results.append(result)

    def flush(self) -> None:
        _flush()
        results, self.results = self.results, []
        self.wire.write(b"".join(results))

    def readable(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(262144, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if data:
            self.feed(data)
        else:
            self.end()

    def end(self) -> None:
        self.ended.set()

    async def main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()  # made here: before Python 3.10 it belongs to the loop that there is
        self.loop.set_default_executor(self.threads)
        self.loop.set_task_factory(self.make_task)
        sock = socket.socket(fileno=self.wire.fd_in)
        self.loop.add_reader(sock, self.readable, sock)
        self.hello(self.concurrency)
        await self.ended.wait()
        _flush()
        os._exit(0)  # a thread that still runs holds nobody up

    def run(self) -> None:
        asyncio.run(self.main())


def run(concurrency: Optional[int] = None) -> None:
    """Handles tasks until the node says that it is enough.

    concurrency: how many at once.  By default one; with handlers that are coroutines a hundred, in one event loop.  More than one of
    plain functions run in threads.
    """
    if "PGRAB_HANDLER_IN" not in os.environ:
        sys.exit(f"{sys.argv[0]}: this is started by a pgrab node: name it in a [pool NAME] section of the node's file, see docs/handlers.md")
    if _spoken() is None:
        sys.exit(f"this node speaks version {os.environ.get('PGRAB_HANDLER_PROTOCOL')} of the protocol, pgrab_handler {__version__} "
                 f"versions {', '.join(map(str, PROTOCOLS))}")
    if not _handlers:
        sys.exit("there is no handler: decorate a function with @task(\"a_kind\") before run()")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    wire = _Wire(int(os.environ["PGRAB_HANDLER_IN"]), int(os.environ["PGRAB_HANDLER_OUT"]))
    if any(handler.is_async for handler in _handlers.values()):
        _Loop(wire, concurrency or 100).run()
    elif concurrency is None or concurrency == 1:
        _OneByOne(wire).run()
    else:
        _Threads(wire, concurrency).run()
