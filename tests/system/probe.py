"""The tests' side of probe.sh: tasks that leave a trace, and what the traces say."""
import collections
import fcntl
import os
import shlex
from pathlib import Path

from cluster import wait_until

Event = collections.namedtuple("Event", "what tag task fire_at attempt fence pid at")
SCRIPT = Path(__file__).with_name("probe.sh")


class Probe:
    def __init__(self, folder):
        self.file = Path(folder) / "probe"
        self.file.touch()
        self.gate = open(Path(folder) / "gate", "w", encoding="ascii")

    def close(self):
        self.gate.close()

    def env(self, **extra):
        return {"PROBE_FILE": str(self.file), **{k: str(v) for k, v in extra.items()}}

    def shell(self, tag, seconds=0, gate=False, exit_status=0, deaf=False):
        """The kind, command and args of a task: db.add(**probe.shell('a', seconds=1), max_attempts=1).

        With gate it waits until open_gate; deaf: it ignores SIGTERM.
        """
        env = self.env(PROBE_EXIT=exit_status)
        if gate:
            env["PROBE_GATE"] = self.gate.name
        if deaf:
            env["PROBE_DEAF"] = "1"
        return {"kind": "shell", "command": shlex.join([str(SCRIPT), tag, str(seconds)]), "args": {"env": env}}

    def close_gate(self):
        fcntl.flock(self.gate, fcntl.LOCK_EX)

    def open_gate(self):
        fcntl.flock(self.gate, fcntl.LOCK_UN)

    def events(self, what=None, tag=None):
        lines = self.file.read_text(encoding="utf-8").splitlines()
        found = [Event(*line.split("\t")) for line in lines]
        return [e for e in found if what in (None, e.what) and tag in (None, e.tag)]

    def wait(self, what, tag=None, count=1, timeout=10.0):
        """Waits for count such lines and returns them."""
        def enough():
            found = self.events(what, tag)
            return found if len(found) >= count else None
        return wait_until(enough, timeout, f"{count} '{what}' lines of {tag or 'any probe'}")

    def assert_no_overlap(self):
        assert not self.events("overlap"), self.events("overlap")

    def unfinished(self):
        """The process ids that started and did not say that they ended."""
        ended = {e.pid for e in self.events("end")}
        return [int(e.pid) for e in self.events("start") if e.pid not in ended]

    def truncate(self):
        os.truncate(self.file, 0)
