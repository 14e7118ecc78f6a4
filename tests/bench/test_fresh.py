"""scripts/bench on a machine where only scripts/demo ran before: no driver for Python, no test library."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def fakes(tmp_path):
    """A folder in front of PATH; fakes(name, script) puts a program there."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def add(name, script):
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    add.env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    return add


def run(*command, env):
    return subprocess.run(list(map(str, command)), cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def test_a_missing_driver_is_installed(fakes, tmp_path):
    log, hidden = tmp_path / "apt.log", tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "psycopg.py").write_text("raise ModuleNotFoundError(\"No module named 'psycopg'\")\n")
    fakes("dpkg-query", f'case "$*" in *python3-psycopg) [ ! -d {hidden} ] || exit 1 ;; esac; printf "install ok installed"')
    fakes("apt-get", f'echo "$*" >>{log}; case "$*" in *install*python3-psycopg*) rm -r {hidden} ;; esac')
    fakes("sudo", 'exec "$@"')
    python = fakes("python-without-a-driver", f'PYTHONPATH={hidden} exec {sys.executable} "$@"')

    done = run("scripts/bench", "nodes", "--help", env={**fakes.env, "PGRAB_PYTHON": str(python)})

    assert done.returncode == 0, done.stdout + done.stderr
    assert "install -q -y --no-install-recommends python3-psycopg" in log.read_text()
    assert "--nodes" in done.stdout


def test_what_is_there_is_not_installed_again(fakes, tmp_path):
    log = tmp_path / "apt.log"
    fakes("apt-get", f'echo "$*" >>{log}')
    done = run("scripts/bench", "compare", "--help", env=fakes.env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not log.exists()


def test_the_floor_is_built_without_the_test_library_and_the_tests_when_it_came(fakes, tmp_path):
    folder, real = tmp_path / "build", shutil.which("pkg-config")
    fake = fakes("pkg-config", f'case "$*" in *cmocka*) exit 1 ;; esac; exec {real} "$@"')

    without = run("scripts/build", folder, "tests/bench/floor", env={**fakes.env, "PKG_CONFIG": str(fake)})
    assert without.returncode == 0, without.stdout + without.stderr
    assert (folder / "tests/bench/floor").exists()

    with_it = run("scripts/build", folder, "tests/unit/test_core", env=os.environ)
    assert with_it.returncode == 0, with_it.stdout + with_it.stderr
    assert (folder / "tests/unit/test_core").exists()
