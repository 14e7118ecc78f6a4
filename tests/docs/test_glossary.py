"""The glossary names what is there: each place in its last column is a file, or a name in the schema or in the source."""
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", re.M)
SCHEMA = "\n".join(p.read_text(encoding="utf-8") for p in sorted(ROOT.glob("migrations/**/*.sql")))
SOURCE = "\n".join(p.read_text(encoding="utf-8") for folder in ("src", "include") for p in sorted((ROOT / folder).rglob("*.[ch]")))


def places():
    for word, where in ROW.findall((ROOT / "docs/glossary.md").read_text(encoding="utf-8")):
        for name in re.findall(r"`([^`]+)`", where):
            yield pytest.param(name, id=f"{word}: {name}")


def is_there(name):
    if "/" in name:
        return (ROOT / name).is_file()
    if name.startswith("struct "):
        return re.search(rf"^{name} \{{", SOURCE, re.M)
    if re.fullmatch(r"pgrab\.\w+\.\w+", name):
        return f"comment on column {name} is" in SCHEMA
    return re.search(rf"(table|view|function) {re.escape(name)}\b", SCHEMA) or re.search(rf"\b{re.escape(name)}\b", SCHEMA + SOURCE)


@pytest.mark.parametrize("name", places())
def test_a_place_of_the_glossary_exists(name):
    assert is_there(name), f"{name}: nothing has that name any more"


def test_no_word_stands_twice():
    words = [word for word, _ in ROW.findall((ROOT / "docs/glossary.md").read_text(encoding="utf-8"))]
    assert len(words) > 40 and len(words) == len(set(words))
