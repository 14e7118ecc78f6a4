"""The libraries' own tests, each by its language's own means."""
import shutil
import subprocess
import sys

import pytest
from cluster import ROOT


def run(*command, folder):
    done = subprocess.run(command, cwd=ROOT / "contrib/workers" / folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=180, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]


def test_of_python():
    run(sys.executable, "-B", "-m", "unittest", folder="python")


@pytest.mark.skipif(not shutil.which("node"), reason="there is no Node.js here")
def test_of_javascript():
    run("node", "--test", folder="node")
