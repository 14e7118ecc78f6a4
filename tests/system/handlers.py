"""Handler processes for tests: a file of handlers in Python or JavaScript, and a node that keeps them."""
import json
import os
import sys
from pathlib import Path

import pytest
from cluster import ROOT, process_table, wait_until

PYTHON = ROOT / "contrib/handlers/python"
HEAD = """import asyncio, json, os, select, signal, sys, threading, time
from pgrab_handler import *
doze = lambda seconds: select.select([], [], [], seconds)
"""


class Handlers:
    """handlers.start(nodes, 'body of the Python file', ...) -> a node with one [pool w] section."""

    def __init__(self, folder):
        self.folder, self.count = folder, 0

    def file(self, text, suffix=".py"):
        self.count += 1
        path = self.folder / f"handlers{self.count}{suffix}"
        path.write_text(text)
        return path

    def section(self, command, kinds, name="w", **keys):
        lines = [f"[pool {name}]", f"command = {command}", f"kinds = {kinds}", f"env = PYTHONPATH={PYTHON},PYTHONDONTWRITEBYTECODE=1"]
        return "\n".join(lines + [f"{key} = {value}" for key, value in keys.items()]) + "\n"

    def config(self, *sections):
        self.count += 1
        path = self.folder / f"pgrab{self.count}.conf"
        path.write_text("\n".join(sections))
        return path

    def python(self, text, kinds, run="run()", **keys):
        """A section whose process is this Python text."""
        return self.section(f"{sys.executable} {self.file(HEAD + text + chr(10) + run + chr(10))}", kinds, **keys)

    def start(self, nodes, text, kinds, name="n1", node=None, **keys):
        started = nodes.start(name, config=self.config(self.python(text, kinds, **keys)), **(node or {}))
        return started

    def wait_up(self, db, count=1, name="w", timeout=15):
        db.wait("select coalesce(sum(up), 0) >= %s from pgrab.pool where name = %s", count, name, timeout=timeout)


def pids_of(node, marker="handlers"):
    """The handler processes of a node: below one of its shims."""
    table, found = process_table(), []
    for pid, (parent, _, name) in table.items():
        if parent in table and table[parent][2] == "pgrab-shim" and is_below(table, pid, node.pid):
            found.append(pid)
    return sorted(found)


def is_below(table, pid, top):
    while pid in table and pid != top:
        pid = table[pid][0]
    return pid == top


def args(**members):
    return json.dumps(members)
