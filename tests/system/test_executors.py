"""Executors of third parties, built against the installed header alone, and run by real nodes."""
import json
import re
import shutil
import subprocess

import pytest
from cluster import ROOT, run_pgrab

BLOCK = re.compile(r"^```c\n(.*?)^```$", re.M | re.S)


@pytest.fixture
def file_so(tmp_path, installed):
    """executors/example, built as its README says."""
    shutil.copytree(ROOT / "executors/example", tmp_path / "example")
    for command in (["setup", "--werror", "build"], ["compile", "-C", "build"]):
        subprocess.run(["meson", *command], cwd=tmp_path / "example", env=installed, check=True, stdout=subprocess.DEVNULL)
    assert f"{ROOT}/" not in (tmp_path / "example/build/compile_commands.json").read_text()
    return tmp_path / "example/build/file.so"


def test_the_example_waits_for_a_file(db, nodes, file_so, tmp_path):
    nodes.start("n1", executors=file_so)
    db.wait("select exists (select from pgrab.kind where kind = 'file')")
    there, comes, never = tmp_path / "there", tmp_path / "comes", tmp_path / "never"
    there.write_text("abc")
    assert db.wait_run(db.add(kind="file", command=str(there))).output == "3 bytes\n"
    waiting = db.add(kind="file", command=str(comes))
    db.wait("select status = 'running' from pgrab.task where id = %s", waiting)
    comes.write_text("")
    assert db.wait_run(waiting).outcome == "succeeded"
    late = db.wait_run(db.add(kind="file", command=str(never), args='{"within": 0.1}', max_attempts=1))
    assert (late.outcome, late.error) == ("failed", f"{never} did not appear")


def test_the_example_refuses_what_it_does_not_know_and_stops_when_told(db, nodes, file_so, tmp_path):
    nodes.start("n1", executors=file_so)
    db.wait("select exists (select from pgrab.kind where kind = 'file')")
    bad = db.add(kind="file", command=str(tmp_path / "x"), args='{"within": "soon"}', max_attempts=1)
    assert "number of seconds" in db.wait_run(bad).error
    waiting = db.add(kind="file", command=str(tmp_path / "never"))
    db.wait("select status = 'running' from pgrab.task where id = %s", waiting)
    db.query("select * from pgrab.cancel(%s)", waiting)
    assert db.wait_run(waiting).outcome == "cancelled"


def test_the_executor_of_the_page_builds_and_runs(db, nodes, tmp_path, installed):
    (source,) = BLOCK.findall((ROOT / "docs/executors.md").read_text(encoding="utf-8"))
    (tmp_path / "hello.c").write_text(source)
    cflags = subprocess.run(["pkg-config", "--cflags", "pgrab"], env=installed, check=True, capture_output=True, text=True).stdout.split()
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", tmp_path / "hello.so", tmp_path / "hello.c", *cflags], check=True)
    nodes.start("n1", executors=tmp_path / "hello.so")
    db.wait("select exists (select from pgrab.kind where kind = 'hello')")
    assert db.wait_run(db.add(kind="hello", command="good day")).output == "good day"


def test_executor_list_names_what_is_built_in_and_what_a_file_brings(file_so, tmp_path):
    lines = run_pgrab("executor", "list").stdout.splitlines()
    assert lines[0].split() == ["kind", "summary"]
    assert sorted(line.split()[0] for line in lines[1:]) == ["exec", "http", "noop", "notify", "shell", "sql"]
    rows = json.loads(run_pgrab("executor", "list", file_so, "--json").stdout)
    assert [r["kind"] for r in rows if not r["builtin"]] == ["file"] and all(r["summary"] for r in rows)
    (tmp_path / "none.so").write_text("no shared object")
    bad = run_pgrab("executor", "list", tmp_path / "none.so", check=False)
    assert bad.returncode == 1 and "could not load the executor" in bad.stderr
    assert run_pgrab("executor", check=False).returncode == 2
    assert run_pgrab("executor", "drop", check=False).returncode == 2
