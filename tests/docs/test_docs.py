"""What the documentation shows is what happens: its SQL runs, its answers are those of the server, its links lead somewhere.

A ```sql block is run in a fresh database with one node.  A plain block right behind it is what it has to answer: the rows of the
last statement, unaligned, or the error that it ends with.

The ```psql blocks of a section are one session, played as session.py says.  PGRAB_DOCS_WRITE=1 writes what psql prints into the page, where it is something else.
"""
import os
import re
import subprocess
from pathlib import Path

import pytest
import session

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


def psql_sections():
    for page in PAGES:
        for section in session.sections(page.read_text(encoding="utf-8")):
            yield pytest.param(page, section, id=f"{page.relative_to(ROOT)}: {section.splitlines()[0].lstrip('# ')}")


@pytest.mark.parametrize("page, section", psql_sections())
def test_psql_prints_what_the_page_shows(db, nodes, page, section):
    played, wrong = session.play(section, db, nodes)
    if os.environ.get("PGRAB_DOCS_WRITE") and played != section:
        page.write_text(page.read_text(encoding="utf-8").replace(section, played), encoding="utf-8")
        return
    assert not wrong, "the page shows something else than psql:\n" + "\n".join(wrong)


def anchors(page):
    """What a # may name: the headings as GitHub and GitLab spell them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_files_that_are_there(page):
    for target, _, anchor in (link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")) if "://" not in link):
        assert (page.parent / target).exists(), target
        assert not anchor or anchor in anchors(page.parent / target if target else page), anchor


def test_the_first_screen_of_the_readme_names_both_commands():
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:24]
    assert any("./scripts/demo" in line for line in first_screen) and any("./scripts/test" in line for line in first_screen)


@pytest.mark.parametrize("folder", ["docs", "docs/adr"])
def test_each_page_is_in_the_index_of_its_folder(folder):
    index = (ROOT / folder / "README.md").read_text(encoding="utf-8")
    missing = [page.name for page in (ROOT / folder).glob("*.md") if page.name != "README.md" and not re.search(rf"\]\({page.name}(#|\))", index)]
    assert not missing


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/*.md")), ids=lambda p: p.name)
def test_each_page_says_who_it_is_for(page):
    heading, first = page.read_text(encoding="utf-8").split("\n\n")[:2]
    assert heading.startswith("# ") and first.startswith("For " if page.name != "README.md" else "**If you are new**")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page):
    for name in re.findall(r"`((?:src|docs|tests|scripts|migrations|strategies|executors|include|packaging|contrib)/[\w./*-]+)`", page.read_text(encoding="utf-8")):
        assert "NNNN" in name or list(ROOT.glob(name)), name
