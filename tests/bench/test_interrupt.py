"""What has begun a server and is told to end, again and again, while it is being made leaves nothing behind."""
import signal
import subprocess
import sys
from pathlib import Path

import cluster

HERE = Path(__file__).resolve().parent
MAKES_A_SERVER = f"""
import signal, sys
sys.path.append({str(HERE.parent / "system")!r})
import cluster
cluster.end_by_signals()
cluster.Cluster(stoppable=True)
signal.pause()
"""


def folder_of(parent):
    """Where scripts/pg, begun by this process, makes a server; None when it has not begun."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_text().split("\0")
            its_parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if its_parent == parent and "--dir" in words:
            return Path(words[words.index("--dir") + 1]).parent
    return None


def of_folder(folder):
    """Processes that name it: the server, and what makes one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder) in (entry / "cmdline").read_text():
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def told_to_end(process):
    """Again, for as long as it is there; whether it has ended."""
    process.terminate()
    return process.poll() is not None


def test_signals_while_the_server_is_being_made():
    process = subprocess.Popen([sys.executable, "-B", "-c", MAKES_A_SERVER], stderr=subprocess.PIPE, text=True)
    folder = cluster.wait_until(lambda: folder_of(process.pid), 60, "scripts/pg to begin", 0.005)

    cluster.wait_until(lambda: told_to_end(process), 180, "its end")
    errors = process.communicate()[1]

    assert "KeyboardInterrupt" in errors
    assert not folder.exists()
    assert of_folder(folder) == []
