"""scripts/bench worst in the smallest size: every case is made, ends, and is reported."""
import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASES = {"links", "alerts", "paused", "rare", "year"}


def worst(*args):
    # The program that is tested is measured, where there is one; else the benchmark builds its own.
    return subprocess.run(["scripts/bench", "worst", "--scale", "tiny", *args], cwd=ROOT, env=os.environ, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=300, check=False)


def test_every_case_is_made_ends_and_is_reported():
    done = worst("--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)["cases"]
    assert set(found) == CASES
    for name, case in found.items():
        assert case["others"] >= 20, name
        assert 0 < case["p50_ms"] <= case["p99_ms"] <= case["max_ms"], name
        assert {"claim", "finish", "look"} <= {statement[0] for statement in case["statements"]}, name


def test_a_case_that_there_is_not_is_refused():
    done = worst("nothing")
    assert done.returncode == 1
    assert "there is no case nothing; there are links, alerts, paused, rare, year" in done.stderr
