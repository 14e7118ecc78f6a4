"""The examples of docs/handlers.md and of the README: each is run by a real node as it stands there."""
import asyncio
import re
import shutil
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import psycopg
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/handlers.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(page, language, holding):
    """The one block of that language that holds a text."""
    found = [text for text in re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S) if holding in text]
    assert len(found) == 1, f"{len(found)} blocks of {language} hold {holding}"
    return found[0]


def start(nodes, folder, command, kinds, env=""):
    """A node with one section, beside the file that it names."""
    config = folder / "pgrab.conf"
    config.write_text(f"[pool mail]\ncommand = {command}\nkinds = {kinds}\ncwd = {folder}\n" + (f"env = {env}\n" if env else ""))
    return nodes.start("n1", config=config)


@pytest.mark.parametrize("page", [PAGE, README], ids=["handlers.md", "README.md"])
def test_the_five_lines_of_python(db, nodes, tmp_path, page):
    text = block(page, "python", "def send_email")
    assert len([line for line in text.splitlines() if line]) <= 5
    (tmp_path / "handlers.py").write_text(text)
    start(nodes, tmp_path, f"{sys.executable} handlers.py", "send_email", f"PYTHONPATH={ROOT / 'contrib/handlers/python'}")
    db.wait("select up = 1 from pgrab.pool", timeout=15)
    insert = re.search(r"insert into pgrab.task \(kind, args\) values \('send_email', '\{[^']*\}'\);", page)[0]
    db.query(insert)
    db.wait("select count(*) = 1 from pgrab.run where outcome = 'succeeded' and output = E'to 7: hello\\n'")


def test_the_keys_of_the_section_are_those_there_are():
    table = re.findall(r"^\| (`.*?`) \|", PAGE.split("## The section")[1].split("\n## ")[0], re.M)
    shown = {key for row in table for key in re.findall(r"`(\w+)`", row)}
    source = (ROOT / "src/node/settings/section.c").read_text(encoding="utf-8")
    assert shown == set(re.findall(r'^ +\{"(\w+)", 0, \w+, POOL\(', source, re.M))


def test_the_row_that_does_not_fit(db, nodes, tmp_path):
    (tmp_path / "handlers.py").write_text(block(PAGE, "python", "def send_email"))
    start(nodes, tmp_path, f"{sys.executable} handlers.py", "send_email", f"PYTHONPATH={ROOT / 'contrib/handlers/python'}")
    db.wait("select schema is not null from pgrab.kind where kind = 'send_email'", timeout=15)
    shown = block(PAGE, "text", "ERROR:")
    statement, error, hint = re.fullmatch(r"=> (.*?)\nERROR:  (.*?)\nHINT:  (.*?)\n", shown).groups()
    with pytest.raises(Exception) as e:
        db.query(statement)
    assert (e.value.diag.message_primary, e.value.diag.message_hint) == (error, hint)


@pytest.mark.skipif(not shutil.which("node"), reason="there is no Node.js here")
def test_the_example_in_javascript(db, nodes, tmp_path):
    shutil.copy(ROOT / "contrib/handlers/node/pgrab-handler.mjs", tmp_path)
    (tmp_path / "handlers.mjs").write_text(block(PAGE, "js", "task('resize'"))
    start(nodes, tmp_path, f"{shutil.which('node')} handlers.mjs", "resize")
    db.wait("select schema ->> 'required' = '[\"url\"]' from pgrab.kind where kind = 'resize'", timeout=15)
    run = db.wait_run(db.add(kind="resize", args={"url": "data:,hello"}))
    assert (run.outcome, run.output) == ("succeeded", '{"bytes":5}\n')
    empty = db.wait_run(db.add(kind="resize", args={"url": ""}))
    assert (empty.outcome, empty.error) == ("failed", "there is no url")


@pytest.mark.skipif(not shutil.which("ruby"), reason="there is no Ruby here")
def test_the_process_in_ruby(db, nodes, tmp_path):
    (tmp_path / "words.rb").write_text(block(PAGE, "ruby", "count_words"))
    start(nodes, tmp_path, "ruby words.rb", "count_words")
    run = db.wait_run(db.add(kind="count_words", args={"text": "one two three"}), timeout=20)
    assert (run.outcome, run.output) == ("succeeded", "3\n"), run.error
    wrong = db.wait_run(db.add(kind="count_words", max_attempts=1))
    assert wrong.outcome == "failed" and wrong.error == "KeyError: key not found: \"text\"" and "words.rb" in wrong.output


def test_the_process_in_shell(db, nodes, tmp_path):
    (tmp_path / "words.sh").write_text(block(PAGE, "sh", "count_words"))
    start(nodes, tmp_path, "sh words.sh", "count_words")
    run = db.wait_run(db.add(kind="count_words", args={"text": "one two three"}), timeout=20)
    assert run.outcome == "succeeded" and int(run.output) > 3


def test_the_helper_that_inserts_in_the_applications_own_transaction(db, nodes):
    sys.path.insert(0, str(ROOT / "contrib/handlers/python"))
    from pgrab_handler import add_task
    db.query("insert into pgrab.kind (kind, summary, handled) values ('send_email', 'x', true)")
    with db.connect(autocommit=False) as connection:
        task = add_task(connection, "send_email", {"user_id": 7}, run_at="tomorrow", key="mail-42")
        assert not db.query("select from pgrab.task")
        connection.commit()
    assert db.query("select id, args, key from pgrab.task") == [(task, {"user_id": 7}, "mail-42")]


def library():
    sys.path.insert(0, str(ROOT / "contrib/handlers/python"))
    import pgrab_handler
    return pgrab_handler


def test_the_application_waits_for_a_result(db, nodes, tmp_path):
    """A chain of two with one connection, its results, and what is refused: psycopg, and its AsyncConnection."""
    pgrab = library()
    (tmp_path / "handlers.py").write_text("from pgrab_handler import *\n@task('double')\ndef double(n: int, ctx):\n    print('thinking')\n"
                                          "    return {'n': 2 * n, 'parents': sorted(ctx.parents.values(), key=str)}\nrun()\n")
    start(nodes, tmp_path, f"{sys.executable} handlers.py", "double", env=f"PYTHONPATH={ROOT}/contrib/handlers/python")
    db.wait("select schema is not null from pgrab.kind where kind = 'double'", timeout=15)
    with db.connect() as connection:
        with connection.transaction():
            first, second = (pgrab.add_task(connection, "double", {"n": n}, run_at=datetime.now(timezone.utc)) for n in (1, 2))
            third = pgrab.add_task(connection, "double", {"n": 5}, parents=[first, second], timeout=timedelta(days=1, hours=2), run_if="success")
            with connection.transaction(), pytest.raises(ValueError, match="commit first"):
                pgrab.wait(connection, third)
        done = pgrab.wait(connection, third, timeout=20)
        assert done == ("succeeded", {"n": 10, "parents": [{"n": 2, "parents": []}, {"n": 4, "parents": []}]}, None)
        assert connection.execute("select definition ->> 'timeout' from pgrab.run where task_id = %s", [third]).fetchone()[0] == "1 day 02:00:00"
        later = pgrab.add_task(connection, "double", {"n": 1}, run_at="2100-01-01")
        assert pgrab.result(connection, later) is None
        with pytest.raises(TimeoutError, match="has not ended for 0.2 s"):
            pgrab.wait(connection, later, timeout=0.2)

    async def the_same():
        async with await psycopg.AsyncConnection.connect(db.dsn, autocommit=True) as connection:
            task = await pgrab.add_task_async(connection, "double", {"n": 4}, parents=[later], run_if="always")
            await connection.execute("select pgrab.run_now(%s)", [later])
            return await pgrab.wait_async(connection, later, timeout=20), await pgrab.wait_async(connection, task, timeout=20)
    parent, link = asyncio.run(the_same())
    assert parent.value["n"] == 2 and link.value == {"n": 8, "parents": [parent.value]}


def test_a_session_of_sqlalchemy(db):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    pytest.importorskip("psycopg2")
    from sqlalchemy.orm import Session
    pgrab = library()
    engine = sqlalchemy.create_engine("postgresql+psycopg2://", creator=lambda: __import__("psycopg2").connect(db.dsn))
    with Session(engine) as session:
        first = pgrab.add_task(session, "noop", key="first")
        second = pgrab.add_task(session.connection(), "noop", parents=[first])
        session.rollback()
        assert not db.query("select from pgrab.task"), "the application's own transaction"
        first = pgrab.add_task(session, "noop", key="first", timeout=timedelta(hours=2))
        second = pgrab.add_task(session.connection(), "noop", parents=["first"])
        session.commit()
        assert pgrab.result(session, second) is None
        db.query("select pgrab.cancel(%s)", second)
        assert pgrab.wait(session, second, timeout=5).outcome == "cancelled"
    assert db.query("select id, timeout from pgrab.task where key = 'first'") == [(first, timedelta(hours=2))]
    engine.dispose()


LEDGER = """
def told(what):
    def tell(*args):
        with open("ledger", "a") as f:
            print(what, *args, file=f)
        return f"{what} {args[0]}"
    return tell

charge, refund, ship = told("charge"), told("refund"), told("ship")
"""


def test_the_order_in_python(db, nodes, tmp_path):
    """That of docs/waiting.md: one is approved, and for the other the time is over."""
    page = (ROOT / "docs/waiting.md").read_text(encoding="utf-8")
    (tmp_path / "handlers.py").write_text(LEDGER + block(page, "python", "def order("))
    start(nodes, tmp_path, f"{sys.executable} handlers.py", "order", f"PYTHONPATH={ROOT / 'contrib/handlers/python'}")
    db.wait("select up = 1 from pgrab.pool", timeout=15)
    good, late = (db.add(kind="order", args={"order_id": n, "amount": 9.5}) for n in (17, 18))
    db.wait("select count(*) = 2 from pgrab.waits where waits_for = 'approved'", timeout=20)
    db.query("""select pgrab.signal(%s, 'approved', '{"by": "ann"}')""", good)
    db.query("update pgrab.wait set until = now() where task_id = %s", late)
    db.query("notify pgrab, 'waits'")
    ends = "select outcome, output, (select string_agg(s ->> 'name', ' ') from jsonb_array_elements(steps) s) from pgrab.run where task_id = %s " \
           "order by finished_at"
    db.wait("select count(*) = 2 from pgrab.run where ended = 'done'", timeout=20)
    assert db.query(ends, good) == [("waited", None, "pay"), ("succeeded", '"ann"\n', "wait:approved ship")]
    assert db.query(ends, late) == [("waited", None, "pay"), ("succeeded", '"refund charge 18"\n', "wait:approved refund")]
    done = sorted(line.split(" ")[:2] for line in (tmp_path / "ledger").read_text().splitlines())
    assert done == [["charge", "17"], ["charge", "18"], ["refund", "charge"], ["ship", "17"]]
