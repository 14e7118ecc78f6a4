"""Pools of handler processes in the nodes of a seed: their sections, their tasks, and what is done to them."""
import os
import random
import shutil
import signal
import sys
from pathlib import Path

from cluster import ROOT, process_table
from faults import LENGTHS, family, send

HERE = Path(__file__).resolve().parent
NODE = shutil.which("node")
KINDS = ["py_many", "py_beside", "py_thread", "py_one"] + (["js_many"] if NODE else [])
BAD = ["dies", "hangs", "deaf", "floods", "nonsense", "stranger"]
WAITS = ["py_waits", "py_waits_one"] + (["js_waits"] if NODE else [])  # steps, and a wait between them
OWN = {"py_many": ["hello", "twice"], "py_beside": ["hello", "twice"], "js_many": ["forgets"]}
TASKS = 24


def sections(load, folder):
    """The node's file."""
    env = f"env = PROBE_FILE={load.probe.file},STEPS_FILE={load.steps_file},PYTHONPATH={ROOT}/contrib/handlers/python,PYTHONDONTWRITEBYTECODE=1," \
          f"LIBRARY={ROOT}/contrib/handlers/node/pgrab-handler.mjs"
    parts = [("many", f"{sys.executable} {HERE}/pool.py", "py_many, py_beside, py_thread, py_waits"), ("one", f"{sys.executable} {HERE}/pool.py one", "py_one, py_waits_one")]
    if NODE:
        parts.append(("js", f"{NODE} {HERE}/pool.mjs", "js_many, js_waits"))
    path = Path(folder) / "pgrab.conf"
    path.write_text("".join(f"[pool {name}]\ncommand = {command}\nkinds = {kinds}\nping_timeout = 2s\n{env}\n" for name, command, kinds in parts),
                    encoding="utf-8")
    path.chmod(0o600)
    return path


def tasks(seed):
    """(promise, name, seconds until it is due, columns), the same for the same seed, whatever else is drawn from it."""
    rng = random.Random(f"{seed} pools")
    for i in range(TASKS):
        kind = rng.choice(KINDS)
        how = rng.choice(BAD + OWN.get(kind, [])) if rng.random() < 0.25 else "well"
        once = i % 6 == 5
        columns = {"kind": kind, "args": {"tag": f"pool{i}", "seconds": round(rng.uniform(0, 1.5), 2), "how": "well" if once else how}}
        if how == "deaf" or rng.random() < 0.1:
            columns["timeout"] = "2 s"
        if once:
            columns.update(delivery="at_most_once", max_attempts=1)
        yield "amo" if once else "once", f"pool{i}", rng.uniform(0, 6), columns


def draw(seed, seconds, nodes):
    """More faults, for handler processes alone: (at, name, arguments)."""
    rng = random.Random(f"{seed} handlers")
    return [(round(rng.uniform(0.5, seconds), 2), rng.choice(["handlers", "handlers", "renew"]),
             {"node": rng.randrange(nodes), "length": rng.choice(LENGTHS), "pick": rng.random()}) for _ in range(rng.randint(2, 4))]


def handlers(nemesis, node, length, pick):
    """Kills one, or freezes it."""
    table = process_table()
    pids = [pid for pid in family(nemesis.arena.nodes[node])["child"] if pid in table and table[pid][2].startswith(("python", "node", "MainThread"))]
    if not pids:
        return
    pid = pids[int(pick * 1000) % len(pids)]
    if pick < 0.5:
        send(pid, signal.SIGKILL)
        return
    nemesis.alone(node)
    send(pid, signal.SIGSTOP)
    nemesis.arena.over.wait(length)
    send(pid, signal.SIGCONT)
    nemesis.leave(node)


def renew(nemesis, node, length, pick):
    """New code, as far as the node knows."""
    process = nemesis.arena.nodes[node]
    if process.running() and "event=registered" in process.log():  # before that a HUP ends it
        os.kill(process.pid, signal.SIGHUP)
