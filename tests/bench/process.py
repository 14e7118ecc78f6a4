"""Processes that are measured, and the way a benchmark fails."""
import os
import subprocess

import cluster


class Failed(Exception):
    """The benchmark has no result."""


class Process:
    """A program under measurement; afterwards .cpu_s is what it and its children used."""

    def __init__(self, command, log, env=None, stdin=subprocess.DEVNULL, user=None):
        self.command, self.log_path, self.cpu_s, self.status = list(map(str, command)), log, 0.0, None
        with open(log, "wb") as out:
            # A session of its own: a Ctrl-C is for us, who then end it in order.
            self.proc = subprocess.Popen(self.command, stdin=stdin, stdout=out, stderr=out,
                                         env=cluster.clean_env(**(env or {})), start_new_session=True, user=user)

    def poll(self):
        """None while it runs; else its exit status."""
        if self.status is None:
            pid, status, usage = os.wait4(self.proc.pid, os.WNOHANG)
            if pid != 0:
                self.status = self.proc.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s = usage.ru_utime + usage.ru_stime
        return self.status

    def must_run(self):
        if self.poll() is not None:
            raise Failed(f"{' '.join(self.command[:2])} ended with {self.status}:\n{self.log()}")

    def tell(self, line):
        """Writes to its standard input, which must be a pipe."""
        self.proc.stdin.write(line.encode() + b"\n")
        self.proc.stdin.flush()

    def wait_said(self, line, timeout=30):
        """Waits until it has printed a line."""
        def said():
            self.must_run()
            return line in self.log_path.read_text(errors="replace").splitlines()
        cluster.wait_until(said, timeout, f"'{line}' of {self.command[0]}", 0.005)

    def first_line(self, timeout=30):
        """Waits until it has printed a line."""
        def line():
            self.must_run()
            return self.log_path.read_text(errors="replace").partition("\n")[0]
        return cluster.wait_until(line, timeout, f"a line of {self.command[0]}", 0.005)

    def log(self):
        return self.log_path.read_text(errors="replace")[-4000:]

    def end(self):
        """SIGTERM and its exit; a process that does not end is killed, and that is a failure."""
        if self.poll() is None:
            self.proc.terminate()
        self.wait()

    def wait(self, timeout=40):
        try:
            cluster.wait_until(lambda: self.poll() is not None, timeout, f"the end of {self.command[0]}", 0.002)
        except AssertionError:
            self.kill()
            raise
        if self.status != 0:
            raise Failed(f"{' '.join(self.command[:2])} ended with {self.status}:\n{self.log()}")

    def kill(self):
        if self.poll() is None:
            self.proc.kill()
            cluster.wait_until(lambda: self.poll() is not None, 10, "a killed process")
