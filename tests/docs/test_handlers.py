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
