"""'Where to look' of docs/architecture.md: each file is there, and holds the name that stands before it."""
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", PAGE[PAGE.index("## Where to look"):PAGE.index("## Threads of a node")], re.M)[2:]
# what people have looked for, and a word of the row that answers
ASKED = {"retry delay": "backoff", "who may cancel": "who may cancel", "misfire": "missed fires", "shard owner": "owns a shard", "lease end": "lease",
         "output cut": "output is cut", "kinds of a node": "kinds a node runs", "ageing": "ageing", "how a link wakes": "a link wakes", "redirects": "redirects"}


@pytest.mark.parametrize("what, where", ROWS, ids=[what for what, _ in ROWS])
def test_a_place_holds_what_it_is_said_to(what, where):
    assert re.search(r"`[^`]+`", where)
    for names, file in re.findall(r"((?:`[\w.]+(?:\(\))?`,? )+in )?`([\w./*]+/[\w./*]+)`", where):
        found = list(ROOT.glob(file)) if "*" in file else [ROOT / file]
        assert found and all(path.exists() for path in found), file
        for name in re.findall(r"`([\w.]+)", names):
            assert re.search(rf"\b{re.escape(name)}\b", found[0].read_text(encoding="utf-8")), f"{file} has no {name}"


@pytest.mark.parametrize("word", ASKED.values(), ids=ASKED.keys())
def test_what_people_look_for_has_a_row(word):
    assert sum(word in what for what, _ in ROWS) >= 1


def test_the_gates_of_the_page_are_those_of_the_schema():
    made = set(re.findall(r"select '([a-z ]+)'[, ]", "".join(
        (ROOT / f"migrations/api/{file}").read_text(encoding="utf-8") for file in ("45_explain.sql", "54_batch.sql"))))
    page = (ROOT / "docs/sql.md").read_text(encoding="utf-8")
    part = page[page.index("| gate | shut |"):page.index("one that is gone `ended` or `deleted`.") + 40]
    told = {name.removesuffix(" NAME") for name in re.findall(r"`([a-z ]+(?: NAME)?)`", part)} - {"at_most_once"}
    assert {name.strip() for name in made} - {"parents"} == told
