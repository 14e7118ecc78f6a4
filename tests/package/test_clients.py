"""What scripts/package clients makes: installed where nothing else is, and used."""
import shutil
import subprocess
import sys

import pytest
from cluster import ROOT


def say(*command, folder, **env):
    done = subprocess.run(command, cwd=folder, env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder), **env}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.deadline(300)
def test_wheels_and_npm_packages(tmp_path):
    if shutil.which("npm", path="/usr/bin:/bin:/usr/local/bin") is None:
        pytest.skip("there is no npm here")
    made = [line for line in say(ROOT / "scripts/package", "clients", folder=tmp_path) if line.startswith("/")]
    wheels, packages = ([path for path in made if path.endswith(end)] for end in (".whl", ".tgz"))
    assert len(wheels) == len(packages) == 2, made
    say("/usr/bin/python3", "-m", "pip", "install", "-q", "--no-index", "--target", str(tmp_path / "python"), *wheels, folder=tmp_path)
    assert say(sys.executable, "-c", "import pgrab_client, pgrab_handler; print(pgrab_client.FakeQueue(lambda *a, **c: 7).enqueue('a'))",
               folder=tmp_path, PYTHONPATH=str(tmp_path / "python")) == ["1"]
    say("npm", "install", "--silent", "--offline", *packages, folder=tmp_path)
    (tmp_path / "app.mts").write_text("import { FakeQueue } from 'pgrab-client'\nimport { call } from 'pgrab-handler'\n"
                                      "const id: number = await new FakeQueue(call).enqueue('a')\nconsole.log(id)\n")
    say("npx", "--yes", "-p", "typescript@5", "--", "tsc", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "app.mts", folder=tmp_path)
    assert say("node", "app.mjs", folder=tmp_path) == ["1"]
