"""A psql session as a page shows it, played on a real psql at a terminal.

A page's ```psql blocks are grouped by its ## sections.  A section is one session: an empty database, the nodes it asks for, one psql.
Hidden comments between the blocks, one to a line, are for the player:

    <!-- nodes: n1, n2 labels=zone=eu workers=1 -->    starts them; in a section that says nothing n1 is started first
    <!-- wait: select ... -->                          goes on when that is true; fails after 20 s

What the terminal shows is compared with the page, prompts and all.  Only blanks at the end of a line do not count, and values that cannot be the same twice:
a time stands for any time within eight days of now (so what the calendar says of other days is compared), a duration for any duration, and seconds with three
decimals for any such number.  Where one of them differs, so may the widths of the columns.
"""
import datetime
import os
import pty
import re
import select
import subprocess
import time
import tty

from cluster import clean_env

HEADING = re.compile(r"^(?=## )", re.M)
STEP = re.compile(r"^<!-- (?P<what>nodes|wait): *(?P<arg>.*?) *-->$|^```psql\n(?P<block>.*?)^```$", re.M | re.S)
PROMPT = re.compile(r"(?:^|(?<=\n))pgrab[-=*('\"$!]+> $")
SHOWN_PROMPT = re.compile(r"^pgrab[-=*('\"$!]+> ")
VARIES = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?:[+-]\d\d)?)|(?P<duration>(?:\d+ days? )?-?\d\d:\d\d:\d\d(?:\.\d+)?)|(?P<seconds>\b\d+\.\d{3}\b)")

# As people run them: the tests' own are quicker, and show a node as silent when the machine is slow for half a second.
SETTINGS = {"heartbeat": None, "fence_after": None, "dead_after": None, "kill_grace": None}


def sections(text):
    """The parts of a page that hold a session, each from its heading on."""
    return [part for part in HEADING.split(text) if "```psql\n" in part]


def statements(block):
    """A block in parts, each from a prompt to the line before the next `pgrab=`."""
    lines = block.splitlines()
    starts = [n for n, line in enumerate(lines) if SHOWN_PROMPT.match(line) and "=" in line[:7]]
    assert starts and starts[0] == 0, f"a session begins with its prompt: {lines[:1]}"
    return [lines[a:b] for a, b in zip(starts, starts[1:] + [len(lines)])]


def skeleton(text, widths):
    """The text without what varies, and if need be without the widths that follow from it."""
    text = VARIES.sub(lambda m: m.lastgroup, text)
    return text if widths else [re.sub(r"\s+", " ", re.sub(r"[-+]{3,}", "---", line)).strip() for line in text.splitlines()]


def from_the_clock(text):
    at = datetime.datetime.fromisoformat(text[:19]).replace(tzinfo=datetime.timezone.utc)
    return abs(datetime.datetime.now(datetime.timezone.utc) - at) < datetime.timedelta(days=8)


def alike(shown, printed):
    shown, printed = (re.sub(r"[ \t]+$", "", text.rstrip(), flags=re.M) for text in (shown, printed))
    if shown == printed:
        return True
    pairs = list(zip(VARIES.finditer(shown), VARIES.finditer(printed)))
    widths = all(len(a[0]) == len(b[0]) for a, b in pairs)
    return skeleton(shown, widths) == skeleton(printed, widths) and all(a[0] == b[0] or b.lastgroup != "time" or from_the_clock(b[0]) for a, b in pairs)


class Psql:
    """psql at a terminal of its own, without echo."""

    def __init__(self, dsn):
        self.terminal, theirs = pty.openpty()
        tty.setraw(theirs)
        prompts = [f"--set=PROMPT{n}=pgrab%R%x> " for n in (1, 2)]
        self.proc = subprocess.Popen(["psql", "-Xn", "-Ppager=off", "--set=SHOW_CONTEXT=never", *prompts, "-d", dsn], stdin=theirs, stdout=theirs, stderr=theirs,
                                     env=clean_env(TERM="dumb", LC_ALL="C.UTF-8", PGTZ="UTC", PGDATESTYLE="ISO"), start_new_session=True)
        os.close(theirs)
        self.prompt = self.read()[1]

    def read(self, timeout=20):
        """What it prints up to its next prompt, and that prompt."""
        deadline, data = time.monotonic() + timeout, b""
        while True:
            text = data.decode(errors="ignore")
            if found := PROMPT.search(text):
                return text[:found.start()], found[0]
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.terminal], [], [], left)[0], f"no prompt from psql within {timeout} s: {text}"
            data += os.read(self.terminal, 65536)

    def type(self, line):
        """Types a line; returns what the screen shows of it, up to the next prompt."""
        os.write(self.terminal, line.encode() + b"\n")
        before = self.prompt
        printed, self.prompt = self.read()
        return f"{before}{line}\n{printed}"

    def close(self):
        self.proc.terminate()
        self.proc.wait(10)
        os.close(self.terminal)


def start_nodes(nodes, wanted):
    for name, *options in filter(None, map(str.split, wanted.split(","))):
        nodes.start(name, **SETTINGS, **dict(option.split("=", 1) for option in options))


def play(section, db, nodes):
    """Plays a section; returns it as it would have to be, and the statements that printed something else."""
    out, at, wrong = [], 0, []
    steps = list(STEP.finditer(section))
    if not any(step["what"] == "nodes" for step in steps):
        start_nodes(nodes, "n1")
    psql = Psql(db.dsn)
    try:
        for step in steps:
            if step["what"] == "nodes":
                start_nodes(nodes, step["arg"])
            elif step["what"] == "wait":
                db.wait(step["arg"], timeout=20)
            else:
                block = ""
                for shown in statements(step["block"]):
                    typed = [SHOWN_PROMPT.sub("", line) for line in shown if SHOWN_PROMPT.match(line)]
                    printed = "".join(psql.type(line) for line in typed)
                    if alike("\n".join(shown), printed):
                        printed = "\n".join(shown) + "\n"
                    else:
                        wrong.append(printed)
                    block += re.sub(r"[ \t]+$", "", printed, flags=re.M)
                out += [section[at:step.start()], "```psql\n", block.rstrip("\n"), "\n```"]
                at = step.end()
        assert psql.prompt == "pgrab=> ", f"the session ends inside something: {psql.prompt}"
    finally:
        psql.close()
    return "".join(out) + section[at:], wrong
