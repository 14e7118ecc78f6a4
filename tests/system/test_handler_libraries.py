"""The libraries' own tests, each by its language's own means, with every version that is promised and installed."""
import glob
import os
import shutil
import subprocess

import pytest
from cluster import ROOT

PYTHONS = ["3.9", "3.10", "3.11", "3.12", "3.13"]
NODES = ["18", "20", "22", "24"]


def says(version, *command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    return done.returncode == 0 and done.stdout.strip().lstrip("v").startswith(version + ".")


def find(version, *places):
    """The path of this version of an interpreter: in PATH, or where version managers put it."""
    found = [path for place in places for path in (shutil.which(place), *sorted(glob.glob(os.path.expanduser(place)))) if path]
    ask = "import platform; print(platform.python_version())" if "python" in places[0] else "console.log(process.version)"
    return next((path for path in found if says(version, path, "-c" if "python" in places[0] else "-e", ask)), None)


def run(*command, folder):
    done = subprocess.run(command, cwd=ROOT / "contrib" / folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=180, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]


@pytest.mark.parametrize("what", ["handlers", "clients"])
@pytest.mark.parametrize("version", PYTHONS)
def test_of_python(version, what):
    python = find(version, f"python{version}", "python3", f"~/.pyenv/versions/{version}.*/bin/python3", f"/opt/python-{version}*/bin/python3")
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    run(python, "-B", "-m", "unittest", folder=f"{what}/python")


@pytest.mark.parametrize("what", ["handlers", "clients"])
@pytest.mark.parametrize("version", NODES)
def test_of_javascript(version, what):
    node = find(version, "node", f"~/.nvm/versions/node/v{version}.*/bin/node", f"/opt/node-v{version}*/bin/node")
    if node is None:
        pytest.skip(f"there is no Node.js {version} here")
    run(node, "--test", folder=f"{what}/node")
