"""The client libraries in contrib/clients: with a real server, each kind of connection, and the same story told to the fake queue."""
import asyncio
import shutil
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import psycopg
import pytest
from cluster import ROOT
from psycopg import IsolationLevel
from test_handler_libraries import NODES, find

sys.path[:0] = [str(ROOT / "contrib/clients/python"), str(ROOT / "contrib/handlers/python")]
import pgrab_client  # noqa: E402
import pgrab_handler  # noqa: E402
from pgrab_client import AsyncQueue, FakeQueue, Queue  # noqa: E402

HANDLERS = """
from itertools import count
from pgrab_handler import Fail, TimedOut, run, task

made = count(1)

@task("approval")
def approval(ctx):
    said = [ctx.step("make", made.__next__)]
    try:
        ctx.wait("never", 1)
    except TimedOut as e:
        said.append(str(e))
    ctx.sleep("pause", 1)
    return [*said, ctx.wait("early"), ctx.wait("late"), ctx.step("make", made.__next__), ctx.attempt]

@task("double")
def double(n: int, ctx):
    if n < 0:
        raise Fail("less than nothing", retry="no")
    return ctx.signal or {"n": 2 * n, "of": ctx.parents}
run()
"""


def story(queue, write):
    """What queues promise, told to a real one and to a fake one; write() ends a transaction."""
    now = getattr(queue, "now", datetime.now(timezone.utc))
    first = queue.enqueue("double", {"n": 1}, key="first")
    second = queue.enqueue("double", {"n": 2}, parents=["first"], timeout=timedelta(minutes=5))
    bad = queue.enqueue("double", {"n": -1}, name="bad")
    mend = queue.enqueue("double", {"n": 4}, parent_id=bad, run_if="failure")
    never = queue.enqueue("double", {"n": 5}, parent_id=bad)
    asks = queue.enqueue("double", {"n": 6}, wait_for="approved")
    approval = queue.enqueue("approval", max_attempts=1)
    queue.signal(approval, "early", {"by": "cat"})
    gone = queue.enqueue("double", {"n": 7}, run_at=now + timedelta(days=9))
    with queue.batch(key="night") as batch:
        many = batch.enqueue_many("double", [{"n": n} for n in range(20)])
        after = batch.after("double", {"n": 8})
    queue.signal(asks, "approved", {"by": "ann"})
    queue.signal(asks, "approved", {"by": "bob"})
    cancelled = queue.cancel(gone)
    write()
    ends = [queue.wait_for(task, timeout=30) for task in (second, bad, mend, never, asks, gone, batch.id, after, many[19])]
    waits = queue.result(approval) is None
    queue.signal(approval, "late", [7])
    write()
    ends.append(queue.wait_for(approval, timeout=30))
    return cancelled, waits, len(many), [(end.outcome, end.value if end.outcome == "succeeded" else None) for end in ends], ends[1].error.split("\n")[0]


def declared():
    exec(HANDLERS.replace("\nrun()", ""), {})
    return pgrab_handler.call


@pytest.fixture(name="handled")
def start_handlers(db, nodes, tmp_path):
    (tmp_path / "handlers.py").write_text(HANDLERS)
    config = tmp_path / "pgrab.conf"
    config.write_text(f"[pool words]\ncommand = {sys.executable} handlers.py\nkinds = double,approval\nconcurrency = 1\ncwd = {tmp_path}\n"
                      f"env = PYTHONPATH={ROOT}/contrib/handlers/python,PYTHONDONTWRITEBYTECODE=1\n")
    nodes.start("n1", config=config)
    db.wait("select schema is not null from pgrab.kind where kind = 'double'", timeout=15)
    dsn = nodes.pooled() if nodes.pooled else db.dsn  # with --pooler the application's connections go through it, too
    return lambda: psycopg.connect(dsn, prepare_threshold=None)


@pytest.mark.deadline(120)
def test_a_real_queue_and_the_fake_tell_the_same_story(db, handled):
    told = story(FakeQueue(declared()), lambda: None)
    assert told[3][-2] == ("succeeded", {"n": 38, "of": {}}) and told[4] == "less than nothing", told
    assert told[1] and told[3][-1] == ("succeeded", [1, "signal never did not come in time", {"by": "cat"}, [7], 1, 1]), told
    with handled() as connection:
        assert story(Queue(connection), connection.commit) == told
    with handled() as connection:
        connection.isolation_level = IsolationLevel.SERIALIZABLE
        queue = Queue(connection)
        task = queue.enqueue("double", {"n": 21})
        connection.commit()
        connection.autocommit = True
        assert queue.wait_for(task, timeout=30).value["n"] == 42


def test_of_the_applications_transaction(db):
    with db.connect(autocommit=False) as connection:
        queue = Queue(connection)
        task = queue.enqueue("noop", key="k", run_at="tomorrow")
        assert not db.query("select from pgrab.task")
        with pytest.raises(ValueError, match="commit first"):
            queue.wait_for(task)
        connection.commit()
        assert db.query("select id, key from pgrab.task") == [(task, "k")]
        assert queue.result("k") is None
        with pytest.raises(TimeoutError):
            queue.wait_for("k", timeout=0.1)
        connection.rollback()
        with pytest.raises(psycopg.errors.UniqueViolation):
            queue.enqueue("noop", key="k")
        connection.rollback()
        with pytest.raises(psycopg.Error, match="no task has the key or name"):
            queue.cancel("nobody")


def test_many_are_a_statement(db):
    with db.connect(autocommit=False) as connection:
        began = datetime.now()
        ids = Queue(connection).enqueue_many("sql", ({"params": [n]} for n in range(20000)), command="select $1", run_at="2100-01-01", priority=-2)
        connection.commit()
    assert ids == sorted(set(ids)) and len(ids) == 20000
    assert db.one("select count(*) from pgrab.task where priority = -2 and args #>> '{params,0}' = (id - %s)::text", ids[0]) == 20000
    assert datetime.now() - began < timedelta(seconds=20), "two statements, not 20,000"


def test_connections_that_are_awaited(db):
    async def tell(connection):
        queue = AsyncQueue(connection)
        first = await queue.enqueue("noop", run_at=datetime(2100, 1, 1, tzinfo=timezone.utc), wait_for="seen", require={"zone": "eu"})
        second = await queue.enqueue("noop", parents=[first])
        async with queue.batch(max_running=2) as batch:
            await batch.enqueue_many("noop", [{}, {}], wait_for="go")
            await batch.after("noop")
        await queue.signal(first, "seen", {"n": 1})
        assert await queue.cancel(second) and await queue.result(first) is None
        assert (await queue.wait_for(second, timeout=10)).outcome == "cancelled"
        assert db.one("select sealed_at is not null from pgrab.batch where task_id = %s", batch.id)

    async def tell_psycopg():
        async with await psycopg.AsyncConnection.connect(db.dsn, autocommit=True) as connection:
            await tell(connection)

    async def tell_asyncpg():
        asyncpg = pytest.importorskip("asyncpg")
        connection = await asyncpg.connect(**{{"dbname": "database"}.get(name, name): value
                                              for name, value in psycopg.conninfo.conninfo_to_dict(db.dsn).items()})
        await tell(connection)
        await connection.close()
    asyncio.run(tell_psycopg())
    asyncio.run(tell_asyncpg())


def test_sqlalchemy_and_django(db):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    psycopg2 = pytest.importorskip("psycopg2")
    from sqlalchemy.orm import Session
    engine = sqlalchemy.create_engine("postgresql+psycopg2://", creator=lambda: psycopg2.connect(db.dsn))
    with Session(engine) as session:
        Queue(session).enqueue("noop", key="lost")
        session.rollback()
        first = Queue(session).enqueue("noop", key="first", timeout=timedelta(hours=2), run_at="2100-01-01")
        Queue(session.connection()).enqueue_many("noop", [{}, {}], parent_id=first)
        session.commit()
    engine.dispose()
    assert db.query("select key, timeout from pgrab.task order by id limit 1") == [("first", timedelta(hours=2))]
    django = pytest.importorskip("django")
    from django.conf import settings
    given = psycopg.conninfo.conninfo_to_dict(db.dsn)
    settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": given["dbname"], "USER": given.get("user", ""),
                                              "HOST": given.get("host", ""), "PORT": given.get("port", ""), "PASSWORD": given.get("password", "")}})
    django.setup()
    from django.db import connection, transaction
    with transaction.atomic():
        Queue(connection).enqueue("sql", {"params": [1]}, key="of django", command="select $1", parents=["first"])
    connection.close()
    assert db.one("select args from pgrab.task where key = 'of django'") == {"params": [1]}


def test_the_types(tmp_path):
    """What a type checker says of an application."""
    (tmp_path / "app.py").write_text("""
from pgrab_client import Queue, kind

@kind("send_email")
def send_email(user_id: int, subject: str = "hello") -> None: ...

def enqueue(queue: Queue) -> int:
    queue.enqueue(send_email("seven"))
    return queue.enqueue(send_email(7, subject="x"), key="k")
""")
    pytest.importorskip("mypy")
    said = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), "app.py"], cwd=tmp_path,
                          env={"MYPYPATH": str(ROOT / "contrib/clients/python"), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=120, check=False)
    assert said.stdout.splitlines() == ['app.py:8: error: Argument 1 to "send_email" has incompatible type "str"; expected "int"  [arg-type]'], said


def test_node_postgres(db, handled, tmp_path):
    node = next((found for found in (find(version, "node") for version in NODES) if found), None)
    got = node and shutil.which("npm") and subprocess.run(["npm", "install", "--silent", "pg@8"], cwd=tmp_path, capture_output=True, timeout=100, check=False)
    if not got or got.returncode != 0:
        pytest.skip("there is no Node.js, or npm has not given pg")
    given = psycopg.conninfo.conninfo_to_dict(db.dsn)
    (tmp_path / "app.mjs").write_text(f"""
import pg from 'pg'
import {{ Queue }} from '{ROOT}/contrib/clients/node/pgrab-client.mjs'
const client = new pg.Client({{ host: {given['host']!r}, port: {given.get('port', '5432')}, database: {given['dbname']!r}, user: {given.get('user', '')!r} }})
await client.connect()
const queue = new Queue(client)
await client.query('begin')
const task = await queue.enqueue('double', {{ n: 1 }}, {{ key: 'one', wait_for: 'go' }})
let after
const night = await queue.batch(async batch => {{
  await batch.enqueueMany('double', Array.from({{ length: 9 }}, (_, n) => ({{ n }})))
  after = await batch.after('double', {{ n: 3 }}, {{ run_if: 'always' }})
}}, {{ max_running: 2 }})
await queue.signal('one', 'go', {{ by: 'ann' }})
await client.query('commit')
console.log(JSON.stringify([await queue.waitFor(task, {{ timeout: 20000 }}), (await queue.waitFor(after)).value.n, (await queue.result(night)).outcome,
  await queue.cancel(await queue.enqueue('double', {{ n: 1 }}, {{ run_at: '2100-01-01' }}))]))
await client.end()
""")
    done = subprocess.run([node, "app.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == '[{"outcome":"succeeded","value":{"by":"ann"},"error":null},6,"succeeded",true]', done
