"""What the documentation shows is what happens: its SQL runs, its answers are those of the server, its links lead somewhere.

A ```sql block is run in a fresh database with one node.  A plain block right behind it is what it has to answer: the rows of the
last statement, unaligned, or the error that it ends with.

The ```psql blocks of a page are one session, in the order of the page, in a database of its own with one node: each `pgrab=> ` statement (its
continuation lines begin with `pgrab-> `) is given to psql, and what psql prints is compared with what stands below it. Times and durations are
compared as such, whatever they are, and so are widths. A hidden `<!-- wait: select ... -->` before a block waits until that is true.
"""
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def sql_blocks():
    for page in PAGES:
        blocks = list(BLOCK.finditer(page.read_text(encoding="utf-8")))
        for block, after in zip(blocks, blocks[1:] + [None]):
            if block[1] != "sql":
                continue
            between = page.read_text(encoding="utf-8")[block.end():after.start()] if after else "x"
            answer = after[2] if after and after[1] == "" and not between.strip() else None
            line = page.read_text(encoding="utf-8")[:block.start()].count("\n") + 1
            yield pytest.param(block[2], answer, id=f"{page.relative_to(ROOT)}:{line}")


@pytest.mark.parametrize("sql, answer", sql_blocks())
def test_sql_in_the_docs_runs(db, nodes, sql, answer):
    nodes.start()
    done = subprocess.run(["psql", "-qXAt", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=default", db.dsn], input=sql, capture_output=True, text=True, timeout=30, check=False)
    if answer is not None and answer.startswith("ERROR"):
        assert done.stderr.startswith(answer.splitlines()[0]), done.stderr
        assert answer.splitlines()[1] in done.stderr
        return
    assert done.returncode == 0, done.stderr
    if answer is not None:
        assert done.stdout == answer


SESSION = re.compile(r"^<!-- wait: (?P<wait>.*?) -->$|^```psql\n(?P<session>.*?)^```$", re.M | re.S)


def steps(text):
    """The statements of a psql block, each with what it printed."""
    for part in re.split(r"^pgrab=> ", text, flags=re.M)[1:]:
        lines = part.splitlines()
        n = 1
        while n < len(lines) and lines[n].startswith("pgrab-> "):
            n += 1
        yield "\n".join(line.removeprefix("pgrab-> ") for line in lines[:n]), "\n".join(lines[n:])


def alike(text):
    """What psql printed without what differs from one run to the next."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?(\+\d\d)?", "TIME", text)
    text = re.sub(r"(\d+ days? )?\d\d:\d\d:\d\d(\.\d+)?", "DURATION", text)
    text = re.sub(r"[-+]{3,}", "---", text)
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip()]


def session_pages():
    return [page for page in PAGES if "```psql" in page.read_text(encoding="utf-8")]


@pytest.mark.deadline(120)
@pytest.mark.parametrize("page", session_pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_psql_prints_what_the_page_shows(db, nodes, page):
    nodes.start("n1")
    db.query(f"alter database {db.name} set timezone = 'UTC'")
    for match in SESSION.finditer(page.read_text(encoding="utf-8")):
        if match["wait"]:
            db.wait(match["wait"], timeout=20)
            continue
        for statement, printed in steps(match["session"]):
            done = subprocess.run(["psql", "-X", "-P", "pager=off", "-v", "VERBOSITY=default", "-v", "SHOW_CONTEXT=never", "-d", db.dsn, "-c", statement], capture_output=True, text=True, timeout=30,
                                  check=False)
            assert alike(done.stdout + done.stderr) == alike(printed), f"{statement}\nprinted\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_files_that_are_there(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_first_screen_of_the_readme_names_both_commands():
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:24]
    assert any("./scripts/demo" in line for line in first_screen) and any("./scripts/test" in line for line in first_screen)
