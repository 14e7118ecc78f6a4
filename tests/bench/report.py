"""What a benchmark prints: progress, tables, the machine."""
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Progress:
    """One moving line on a terminal; elsewhere a line per step."""

    def __init__(self):
        self.tty = sys.stderr.isatty()
        self.shown = ""

    def show(self, text):
        if self.tty:
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        elif text.split(":")[0] != self.shown.split(":")[0]:
            print(text.split(":")[0], file=sys.stderr)
        self.shown = text

    def note(self, text):
        self.end()
        print(text, file=sys.stderr)

    def end(self):
        if self.tty and self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        self.shown = ""


def percentile(values, part):
    """The smallest value that at least this part of all are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * part // 100) - 1))]


def first_match(path, name):
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return "unknown"


def machine(st):
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    settings = ("shared_buffers", "max_wal_size", "wal_compression", "fsync", "synchronous_commit", "full_page_writes")
    return {"cpu": first_match("/proc/cpuinfo", "model name"), "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
            "kernel": platform.release(), "postgresql": st.one("show server_version"),
            "settings": {name: st.one(f"show {name}") for name in settings}, "commit": commit.stdout.strip() or "unknown"}


def print_machine(m):
    print(f"machine: {m['cpu']}, {m['cores']} cores (client and server share them), {m['memory_gib']} GiB, Linux {m['kernel']}")
    print(f"server:  PostgreSQL {m['postgresql']}, " + ", ".join(f"{k}={v}" for k, v in m["settings"].items()))
    print(f"pgrab:   {m['commit']}")


def print_table(head, rows):
    """The first column is text, the others are numbers that are text already."""
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        cells = [str(row[0]).ljust(widths[0])] + [str(cell).rjust(width) for cell, width in zip(row[1:], widths[1:])]
        print("  ".join(cells).rstrip())
