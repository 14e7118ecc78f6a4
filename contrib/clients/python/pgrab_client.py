"""Tasks of pgrab for applications: inserted, waited for and cancelled with the application's own connection, in its transaction.

    from pgrab_client import Queue

    with psycopg.connect() as connection:
        connection.execute("update invoice set sent = now() where id = %s", [42])
        Queue(connection).enqueue("send_email", {"user_id": 7}, key="mail-42", run_at="tomorrow")

Queue takes a connection of psycopg, psycopg2 or Django, or a Connection or Session of SQLAlchemy; AsyncQueue one of asyncpg, an
AsyncConnection of psycopg, or SQLAlchemy's; FakeQueue none, for tests without a server.  See docs/clients.md.  Needs nothing but
Python 3.9 or later.
"""
from __future__ import annotations

import asyncio
import functools
import inspect
import json
import re
import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, NamedTuple, Optional, Union

if TYPE_CHECKING:
    from typing import ParamSpec
    P = ParamSpec("P")

__all__ = ["AsyncBatch", "AsyncQueue", "Batch", "Call", "FakeQueue", "Queue", "Result", "insert_statement", "kind"]
__version__ = "0.1.0"

Mark = Callable[[int], str]
"""How the driver writes its nth parameter, from 1."""
Statement = tuple[str, list[Any]]
Task = Union[int, str]
"""An id, a key, or a name."""
JSON = ("args", "require", "on_failure")
AT_ONCE = 10000  # rows in one statement


class Result(NamedTuple):
    """How a task has ended; of a schedule, its last fire.  value: what its handler returned."""

    outcome: str
    value: Any
    error: Optional[str]


class Call(NamedTuple):
    """A kind with its args: see kind()."""

    kind: str
    args: dict[str, Any]


def kind(name: str) -> Callable[[Callable[P, Any]], Callable[P, Call]]:
    """Makes a kind of tasks a function, so that type checkers and editors know its args.

        @kind("send_email")
        def send_email(user_id: int, subject: str = "hello") -> None: ...

        queue.enqueue(send_email(user_id=7))

    Only the signature counts; args that are not given are left to the handler.
    """
    def declare(function: Callable[P, Any]) -> Callable[P, Call]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def made(*args: P.args, **more: P.kwargs) -> Call:
            return Call(name, dict(signature.bind(*args, **more).arguments))
        return made
    return declare


# --- the statements


def _columns(of: Union[str, Call], args: Optional[dict[str, Any]], columns: dict[str, Any]) -> dict[str, Any]:
    if isinstance(of, Call):
        if args is not None:
            raise TypeError("the args are in the call already")
        of, args = of
    for name in columns:
        if not re.fullmatch("[a-z_]+", name):
            raise ValueError(f"{name!r} is not a column of pgrab.task")
    return {"kind": of, "args": args or {}, **columns}


def _plain(value: Any) -> Any:
    return f"{value.total_seconds()} s" if isinstance(value, timedelta) else str(value)


def insert_statement(of: Union[str, Call], args: Optional[dict[str, Any]] = None, columns: Optional[dict[str, Any]] = None,
                     mark: Mark = lambda n: "%s") -> Statement:
    """The INSERT of a task and its parameters, for any other driver."""
    values = _columns(of, args, columns or {})
    if "parents" in values:  # further edges come after the row, which pgrab.add() sees to
        return f"select id from pgrab.add({mark(1)}::text::jsonb)", [json.dumps(values, default=_plain)]
    marks = ", ".join(mark(n + 1) + ("::text::jsonb" if name in JSON else "") for n, name in enumerate(values))
    given = [json.dumps(value) if name in JSON and value is not None else value for name, value in values.items()]
    return f"insert into pgrab.task ({', '.join(values)}) values ({marks}) returning id", given


def _many(of: Union[str, Iterable[Call]], many: Optional[Iterable[dict[str, Any]]], columns: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """The rows of enqueue_many(), so many at once as one statement takes."""
    if "parents" in columns or "key" in columns:
        raise ValueError("many tasks cannot have one key, nor parents: use enqueue()")
    rows: list[dict[str, Any]] = []
    for one in (of if many is None else many):
        rows.append(_columns(one, None, columns) if isinstance(one, Call) else _columns(str(of), one, columns))  # type: ignore[arg-type]
        if len(rows) == AT_ONCE:
            yield rows
            rows = []
    if rows:
        yield rows


def _many_statement(rows: list[dict[str, Any]], mark: Mark) -> Statement:
    names = ", ".join(rows[0])
    return (f"insert into pgrab.task ({names}) select {names} from jsonb_populate_recordset(null::pgrab.task, {mark(1)}::text::jsonb) "
            "returning id", [json.dumps(rows, default=_plain)])


def _of(task: Task, mark: str) -> str:
    return f"{mark}::{'text' if isinstance(task, str) else 'bigint'}"


def _call_statement(function: str, task: Task, mark: Mark) -> Statement:
    return f"select id from pgrab.{function}({_of(task, mark(1))})", [task]


def _signal_statement(task: Task, name: str, payload: Any, mark: Mark) -> Statement:
    return (f"select id from pgrab.signal({_of(task, mark(1))}, {mark(2)}, {mark(3)}::text::jsonb)",
            [task, name, None if payload is None else json.dumps(payload)])


def _result_statement(task: Task, mark: Mark) -> Statement:
    return f"select outcome, value::text, error from pgrab.result({_of(task, mark(1))})", [task]


def _written_statement(mark: Mark) -> Statement:
    return "select 1 where pg_current_xact_id_if_assigned() is not null", []


def _result(rows: list[Any]) -> Optional[Result]:
    return Result(rows[0][0], None if rows[0][1] is None else json.loads(rows[0][1]), rows[0][2]) if rows else None


def _refuse_written(rows: list[Any]) -> None:
    if rows:
        raise ValueError("commit first: this transaction has written something, which nobody sees before, nor the task if it is in it")


def _pauses(task: Task, timeout: Optional[float]) -> Iterator[float]:
    """How long to sleep before the next look."""
    end, pause = None if timeout is None else time.monotonic() + timeout, 0.02
    while True:
        left = pause if end is None else min(pause, end - time.monotonic())
        if left <= 0:
            raise TimeoutError(f"task {task} has not ended for {timeout} s")
        yield left
        pause = min(pause * 1.5, 1.0)


# --- with a connection


class Queue:
    """The tasks that a connection inserts: they are there when its transaction commits."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def _rows(self, build: Callable[..., Statement], *given: Any) -> list[Any]:
        connection = self._connection
        if not hasattr(connection, "cursor"):  # SQLAlchemy's; a Session has one
            connection = connection if hasattr(connection, "exec_driver_sql") else connection.connection()
            return list(connection.exec_driver_sql(*_for_alchemy(connection, build, given)).fetchall())
        cursor = connection.cursor()
        try:
            cursor.execute(*build(*given, lambda n: "%s"))
            return list(cursor.fetchall())
        finally:
            cursor.close()

    def enqueue(self, of: Union[str, Call], args: Optional[dict[str, Any]] = None, **columns: Any) -> int:
        """Inserts a task and returns its id.  columns: run_at, key and so on, as in pgrab.task; parents: a list of ids, keys or names."""
        return int(self._rows(insert_statement, of, args, columns)[0][0])

    def enqueue_many(self, of: Union[str, Iterable[Call]], many: Optional[Iterable[dict[str, Any]]] = None, **columns: Any) -> list[int]:
        """Inserts a task for each of many args, 10,000 in a statement, and returns their ids.  columns apply to all."""
        return [row[0] for rows in _many(of, many, columns) for row in self._rows(_many_statement, rows)]

    def result(self, task: Task) -> Optional[Result]:
        """How a task has ended.  None: it has not, or its history is gone."""
        return _result(self._rows(_result_statement, task))

    def wait_for(self, task: Task, timeout: Optional[float] = None) -> Result:
        """Waits until a task has ended.  Raises TimeoutError after so many seconds, and at once in a transaction that has written."""
        _refuse_written(self._rows(_written_statement))
        for pause in _pauses(task, timeout):
            found = self.result(task)
            if found is not None:
                return found
            time.sleep(pause)
        raise AssertionError

    def cancel(self, task: Task) -> bool:
        """Ends a task, or has its run stopped.  False: there was nothing to cancel."""
        return bool(self._rows(_call_statement, "cancel", task))

    def signal(self, task: Task, name: str, payload: Any = None) -> None:
        """Sends a signal for which the task waits, or will."""
        self._rows(_signal_statement, task, name, payload)

    def batch(self, max_running: Optional[int] = None, **columns: Any) -> Batch:
        """A batch, open until the block is left: `with queue.batch() as batch: batch.enqueue(...)`."""
        return Batch(self, max_running, columns)


class Batch:
    """Tasks that belong together: their batch ends when the last of them has."""

    id: int

    def __init__(self, queue: Queue, max_running: Optional[int], columns: dict[str, Any]) -> None:
        self._queue, self._args, self._columns = queue, {} if max_running is None else {"max_running": max_running}, columns

    def __enter__(self) -> Batch:
        self.id = self._queue.enqueue("batch", self._args, **self._columns)
        return self

    def __exit__(self, error: Any, *_: Any) -> None:
        if error is None:  # otherwise the transaction is not committed, and the batch not there
            self._queue._rows(_call_statement, "seal", self.id)

    def enqueue(self, of: Union[str, Call], args: Optional[dict[str, Any]] = None, **columns: Any) -> int:
        """Inserts a member."""
        return self._queue.enqueue(of, args, batch=self.id, **columns)

    def enqueue_many(self, of: Union[str, Iterable[Call]], many: Optional[Iterable[dict[str, Any]]] = None, **columns: Any) -> list[int]:
        """Inserts many members."""
        return self._queue.enqueue_many(of, many, batch=self.id, **columns)

    def after(self, of: Union[str, Call], args: Optional[dict[str, Any]] = None, **columns: Any) -> int:
        """Inserts a task that starts when the batch has ended, as run_if says: success, failure, always."""
        return self._queue.enqueue(of, args, parent_id=self.id, **columns)


def _for_alchemy(connection: Any, build: Callable[..., Statement], given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    numbered = connection.dialect.paramstyle == "numeric_dollar"
    statement, values = build(*given, (lambda n: f"${n}") if numbered else (lambda n: "%s"))
    return statement, tuple(values)


class AsyncQueue:
    """Queue, for connections that are awaited."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def _rows(self, build: Callable[..., Statement], *given: Any) -> list[Any]:
        connection = self._connection
        if hasattr(connection, "fetchrow"):  # asyncpg
            statement, values = build(*given, lambda n: f"${n}")
            return list(await connection.fetch(statement, *values))
        if not hasattr(connection, "cursor"):
            connection = connection if hasattr(connection, "exec_driver_sql") else await connection.connection()
            return list((await connection.exec_driver_sql(*_for_alchemy(connection, build, given))).fetchall())
        async with connection.cursor() as cursor:
            await cursor.execute(*build(*given, lambda n: "%s"))
            return list(await cursor.fetchall())

    async def enqueue(self, of: Union[str, Call], args: Optional[dict[str, Any]] = None, **columns: Any) -> int:
        return int((await self._rows(insert_statement, of, args, columns))[0][0])

    async def enqueue_many(self, of: Union[str, Iterable[Call]], many: Optional[Iterable[dict[str, Any]]] = None, **columns: Any) -> list[int]:
        return [row[0] for rows in _many(of, many, columns) for row in await self._rows(_many_statement, rows)]

    async def result(self, task: Task) -> Optional[Result]:
        return _result(await self._rows(_result_statement, task))

    async def wait_for(self, task: Task, timeout: Optional[float] = None) -> Result:
        _refuse_written(await self._rows(_written_statement))
        for pause in _pauses(task, timeout):
            found = await self.result(task)
            if found is not None:
                return found
            await asyncio.sleep(pause)
        raise AssertionError

    async def cancel(self, task: Task) -> bool:
        return bool(await self._rows(_call_statement, "cancel", task))

    async def signal(self, task: Task, name: str, payload: Any = None) -> None:
        await self._rows(_signal_statement, task, name, payload)

    def batch(self, max_running: Optional[int] = None, **columns: Any) -> AsyncBatch:
        return AsyncBatch(self, max_running, columns)


class AsyncBatch:
    """Batch, for connections that are awaited: `async with queue.batch() as batch: await batch.enqueue(...)`."""

    id: int

    def __init__(self, queue: AsyncQueue, max_running: Optional[int], columns: dict[str, Any]) -> None:
        self._queue, self._args, self._columns = queue, {} if max_running is None else {"max_running": max_running}, columns

    async def __aenter__(self) -> AsyncBatch:
        self.id = await self._queue.enqueue("batch", self._args, **self._columns)
        return self

    async def __aexit__(self, error: Any, *_: Any) -> None:
        if error is None:
            await self._queue._rows(_call_statement, "seal", self.id)

    async def enqueue(self, of: Union[str, Call], args: Optional[dict[str, Any]] = None, **columns: Any) -> int:
        return await self._queue.enqueue(of, args, batch=self.id, **columns)

    async def enqueue_many(self, of: Union[str, Iterable[Call]], many: Optional[Iterable[dict[str, Any]]] = None, **columns: Any) -> list[int]:
        return await self._queue.enqueue_many(of, many, batch=self.id, **columns)

    async def after(self, of: Union[str, Call], args: Optional[dict[str, Any]] = None, **columns: Any) -> int:
        return await self._queue.enqueue(of, args, parent_id=self.id, **columns)


# --- without a server


class _Fake:
    """A row of the fake."""

    def __init__(self, task_id: int, values: dict[str, Any], due_at: datetime) -> None:
        self.id, self.values, self.due_at = task_id, values, due_at
        self.attempt, self.result, self.sealed = 0, None, False  # type: int, Optional[Result], bool
        self.signals: dict[str, Any] = {}
        self.steps: dict[str, Any] = {}  # what its runs have recorded; of a wait that is over in vain, as a node has it, {}
        self.waits: Optional[str] = None  # in its run, for this signal, at most until due_at


class FakeQueue(Queue):
    """A queue for tests: no server, no node, and a clock that moves only when it is told to.

        queue = FakeQueue(pgrab_handler.call)
        order = queue.enqueue("order", {"order_id": 1}, wait_for="approved")
        queue.signal(order, "approved", {"by": "ann"})
        assert queue.wait_for(order).outcome == "succeeded"
        queue.advance(3600)

    handle(kind, args, **context) carries out a task, as pgrab_handler.call() does.  It keeps the rules of keys, times, priorities,
    attempts with their backoff, parents and run_if, signals, waits and steps, and batches; it has no schedules, limits, calendars or timeouts, and
    refuses them.
    """

    KNOWN = {"kind", "args", "command", "name", "key", "run_at", "priority", "max_attempts", "backoff", "backoff_max", "parent_id", "parents", "run_if",
             "wait_for", "batch", "source", "timeout", "keep", "delivery", "traceparent"}

    def __init__(self, handle: Callable[..., Any], now: Optional[datetime] = None) -> None:
        self._handle = handle
        self.now = now or datetime.now(timezone.utc)
        self._tasks: list[_Fake] = []

    def _find(self, task: Task) -> _Fake:
        for row in reversed(self._tasks):
            if task in (row.id, row.values.get("key"), row.values.get("name")):
                return row
        raise ValueError(f"there is no task {task!r}")

    def enqueue(self, of: Union[str, Call], args: Optional[dict[str, Any]] = None, **columns: Any) -> int:
        values = _columns(of, args, columns)
        for name in values:
            if name not in self.KNOWN:
                raise ValueError(f"the fake queue knows nothing of the column {name}")
        key = values.get("key")
        if key is not None and any(row.values.get("key") == key and (row.result is None or self._parked(row)) for row in self._tasks):
            raise ValueError(f"there is a task with the key {key!r} already")
        values["args"] = json.loads(json.dumps(values["args"]))
        parents = list(values.pop("parents", []))
        if values.get("parent_id") is not None:
            parents.append(values["parent_id"])
        values["parents"] = [self._find(parent) for parent in parents]
        run_at = values.get("run_at") or self.now
        if not isinstance(run_at, datetime):
            raise ValueError("the fake queue wants a datetime as run_at")
        self._tasks.append(_Fake(len(self._tasks) + 1, values, run_at))
        return len(self._tasks)

    def enqueue_many(self, of: Union[str, Iterable[Call]], many: Optional[Iterable[dict[str, Any]]] = None, **columns: Any) -> list[int]:
        return [self.enqueue(row.pop("kind"), row.pop("args"), **row) for rows in _many(of, many, columns) for row in rows]

    def _rows(self, build: Callable[..., Statement], *given: Any) -> list[Any]:
        self._find(given[1]).sealed = True  # of a batch that is left
        return []

    @staticmethod
    def _parked(row: _Fake) -> bool:
        return row.result is not None and row.result.outcome == "failed"

    def _state(self, row: _Fake) -> str:
        """over, due, waits, or skipped: a parent has ended otherwise than run_if says."""
        if row.result is not None:
            return "over"
        ends = [parent.result and parent.result.outcome for parent in row.values["parents"]]
        run_if = row.values.get("run_if", "success")
        fits = {"success": {"succeeded"}, "failure": {"failed"}, "always": {"succeeded", "failed", "cancelled", "skipped"}}[run_if]
        if any(end is not None and end not in fits for end in ends) or ends and set(ends) == {"skipped"}:
            return "skipped"
        if None in ends:
            return "waits"
        waits_for = row.values.get("wait_for")
        if waits_for is not None and waits_for not in row.signals:
            return "waits"
        if row.values["kind"] == "batch":
            members = [member for member in self._tasks if member.values.get("batch") == row.id]
            return "due" if row.sealed and all(member.result is not None for member in members) else "waits"
        return "due" if row.due_at <= self.now else "waits"

    def _carry_out(self, row: _Fake) -> None:
        values = row.values
        if values["kind"] == "batch":
            ends = [member.result for member in self._tasks if member.values.get("batch") == row.id]
            good = sum(end is not None and end.outcome == "succeeded" for end in ends)
            row.result = Result("succeeded", f"{good} members, {good} succeeded", None) if good == len(ends) \
                else Result("failed", None, f"{len(ends) - good} of its members failed")
            return
        row.attempt += 1
        if row.waits is not None and row.waits not in row.signals:
            row.steps[f"wait:{row.waits}"] = {}  # its time is over
        row.waits = None
        waits = {name: payload for name, payload in row.signals.items() if f"wait:{name}" not in row.steps}
        context: dict[str, Any] = {"id": row.id, "attempt": row.attempt, "steps": row.steps, "waits": waits}
        if values.get("command") is not None:
            context["command"] = values["command"]
        if values.get("wait_for") is not None:
            context["signal"] = row.signals[values["wait_for"]]
        if values.get("traceparent") is not None:
            context["traceparent"] = values["traceparent"]
        if values["parents"]:
            context["parents"] = {str(parent.values.get("name") or parent.id): parent.result.value
                                  for parent in values["parents"] if parent.result is not None}
        try:
            row.result = Result("succeeded", self._handle(values["kind"], values["args"], **context), None)
        except Exception as e:
            if row.attempt < values.get("max_attempts", 3) and getattr(e, "retry", "default") != "no":
                row.due_at = self.now + timedelta(seconds=self._backoff(row, getattr(e, "retry", "default")))
            else:
                row.result = Result("failed", None, str(e))
        except BaseException as e:
            if type(e).__name__ != "Waiting":  # pgrab_handler's, which need not be there
                raise
            self._wait(row, getattr(e, "name"), getattr(e, "timeout"))

    def _wait(self, row: _Fake, name: str, timeout: Optional[float]) -> None:
        """The run has ended, waited; the task runs again, at no cost, when the signal comes or its time is over."""
        row.attempt -= 1
        row.waits = name
        row.due_at = datetime.max.replace(tzinfo=timezone.utc) if timeout is None else self.now + timedelta(seconds=timeout)

    @staticmethod
    def _backoff(row: _Fake, retry: Any) -> float:
        if retry != "default":
            return float(retry)

        def seconds(name: str, default: float) -> float:
            value: Any = row.values.get(name, default)
            return value.total_seconds() if isinstance(value, timedelta) else float(value)
        return min(seconds("backoff", 5) * float(2 ** (row.attempt - 1)), seconds("backoff_max", 3600))

    def run_due(self) -> int:
        """Carries out what is due, and what becomes due by it; returns how many runs that were."""
        runs = 0
        while True:
            for row in self._tasks:
                if self._state(row) == "skipped":
                    row.result = Result("skipped", None, None)
            due = [row for row in self._tasks if self._state(row) == "due"]
            if not due:
                return runs
            self._carry_out(min(due, key=lambda row: (-row.values.get("priority", 0), row.due_at, row.id)))
            runs += 1

    def advance(self, by: Union[float, timedelta]) -> int:
        """Moves the clock, by seconds or a timedelta, from one due time to the next, and carries out what is due on the way."""
        end = self.now + (by if isinstance(by, timedelta) else timedelta(seconds=by))
        runs = self.run_due()
        while self._jump(end):
            runs += self.run_due()
        self.now = end
        return runs

    def _jump(self, end: datetime) -> bool:
        times = [row.due_at for row in self._tasks if row.result is None and self.now < row.due_at <= end]
        self.now = min(times, default=self.now)
        return bool(times)

    def result(self, task: Task) -> Optional[Result]:
        return self._find(task).result

    def wait_for(self, task: Task, timeout: Optional[float] = None) -> Result:
        """Moves the clock until the task has ended; for a day at most, if no timeout is given."""
        end = self.now + timedelta(seconds=86400 if timeout is None else timeout)
        self.run_due()
        while self.result(task) is None and self._jump(end):
            self.run_due()
        found = self.result(task)
        if found is None:
            raise TimeoutError(f"task {task} has not ended for {end - self.now if timeout is None else timeout} s")
        return found

    def cancel(self, task: Task) -> bool:
        row = self._find(task)
        if row.result is not None and not self._parked(row):
            return False
        row.result = Result("cancelled", None, None)
        return True

    def signal(self, task: Task, name: str, payload: Any = None) -> None:
        row = self._find(task)
        row.signals.setdefault(name, json.loads(json.dumps(payload)))  # the first of a name wins
        if row.waits == name:
            row.due_at = min(row.due_at, self.now)
