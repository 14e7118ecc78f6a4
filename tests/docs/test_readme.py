"""The commands of the README, as they are printed, in a fresh folder."""
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from cluster import clean_env, pgrab_bin

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(heading, language):
    section = re.split(r"^## ", README.split(f"\n## {heading}\n")[1], maxsplit=1, flags=re.M)[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.M | re.S)


@pytest.fixture
def shell(tmp_path):
    """Runs a text in the folder; the nodes that it starts end with the test."""
    started = []

    def run(text, dsn):
        (tmp_path / "pgrab").symlink_to(pgrab_bin()) if not (tmp_path / "pgrab").exists() else None
        with open(tmp_path / "log", "ab") as log:
            process = subprocess.Popen(["sh", "-e"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
                                       env=clean_env(PGRAB_DSN=dsn, PGRAB_ALLOW_ROOT="yes", PGRAB_ALLOW_SUPERUSER="yes", PATH=f"{tmp_path}:{os.environ['PATH']}"))
        started.append(process)
        process.communicate(text.encode(), timeout=60)
        assert process.returncode == 0, (tmp_path / "log").read_text()
    yield run
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGTERM)
        except ProcessLookupError:
            pass


def test_five_lines_for_an_existing_database(cluster, db, shell):
    text, = blocks("Five lines for an existing database", "sh")
    shell(re.sub(r"^export PGRAB_DSN=.*\n", "", text, flags=re.M), db.dsn)
    assert db.one("select schedule from pgrab.task where key = 'nightly'") == "30 2 * * *"
    db.wait("select exists (select from pgrab.node where state = 'up' and kinds @> '{shell,http}')", timeout=15)


def test_the_handler_in_python(db, shell, tmp_path):
    section = "Handlers in Python, JavaScript, anything"
    (tmp_path / "handlers.py").write_text(blocks(section, "python")[0])
    shell(blocks(section, "sh")[0].replace("/usr/share/pgrab/handlers/python", str(ROOT / "contrib/handlers/python")), db.dsn)
    db.wait("select coalesce(sum(up), 0) = 4 from pgrab.pool", timeout=20)
    db.query(blocks(section, "text")[0])
    db.wait("select exists (select from pgrab.run where outcome = 'succeeded' and output = E'to 7: hello\\n')", timeout=15)
