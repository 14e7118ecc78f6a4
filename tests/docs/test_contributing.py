"""The steps of CONTRIBUTING.md, followed to the letter on a copy of the sources, which then builds and does what they say."""
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STEP = re.compile(r"^```(\w+) (\S+)\n(.*?)^```$", re.M | re.S)


def change(text, lines):
    """Lines that begin with a blank stand one after the other, once, in text; those with + go between them."""
    before = "".join(line[1:] for line in lines if line[0] == " ")
    after = "".join(line[1:] for line in lines)
    assert text.count(before) == 1, f"stands there {text.count(before)} times: {before}"
    return text.replace(before, after)


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """The program, built from a copy of the sources in which every step was taken."""
    tree = tmp_path_factory.mktemp("contributing")
    names = subprocess.run(["git", "ls-files", "-z", "--", ".", ":!docs", ":!tests/system"], cwd=ROOT, check=True, capture_output=True).stdout
    packed = subprocess.run(["tar", "-C", ROOT, "--null", "-T", "-", "-cf", "-"], input=names, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-C", tree, "-xf", "-"], input=packed, check=True)
    steps = STEP.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert len(steps) >= 15
    for language, name, text in steps:
        path = tree / name
        assert path.exists() == (language == "diff"), name
        path.write_text(change(path.read_text(encoding="utf-8"), text.splitlines(keepends=True)) if language == "diff" else text, encoding="utf-8")
    for command in (["setup", "-Dtests=false", "--werror", "build"], ["compile", "-C", "build", "pgrab"]):
        done = subprocess.run(["meson", *command], cwd=tree, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return next(p for p in (tree / "build").rglob("pgrab") if p.is_file())


def pgrab(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, timeout=30, check=False)


def test_each_step_does_what_it_says(changed, db, nodes):
    assert "--motto TEXT" in pgrab(changed, "run", "--help").stdout
    assert "first " in pgrab(changed, "strategy", "list").stdout
    assert "applying 0002_holiday.sql" in (done := pgrab(changed, "migrate", "--dsn", db.dsn)).stdout + done.stderr, done
    db.query("insert into pgrab.task (kind, command, max_attempts, source) values ('fail', 'as it should', 1, 'mine')")
    assert re.search(r"^mine +1 +0", pgrab(changed, "sources", "--dsn", db.dsn).stdout, re.M)
    node = nodes.start("n1", binary=changed, allow="fail", strategy="first", motto="up we are")
    assert db.wait_run(db.one("select id from pgrab.task")).error == "as it should"
    node.wait_log("event=motto text=\"up we are\"")
    db.query("insert into pgrab.holiday values ('2026-12-25')")
