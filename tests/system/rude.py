"""A handler process without a library that does to its node whatever a task asks for, at its first attempt.

Started as: python3 rude.py, by a section of kind raw.
"""
import json
import os
import resource
import select
import signal
import sys
import time

CONCURRENCY = 6
OTHERS = (-3, -2, -1, 1, 2, 3, 1000, 10**12)


def say(message):
    os.write(4, (message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n")


def result(run, **members):
    return {"type": "result", "run": run, "ok": True, "value": 1} | members


def well(run):
    say(result(run))


def raw(text):
    """A line in which %d is the run."""
    return lambda run: say(text.replace(b"%d", str(run).encode()))


def then_well(*lines):
    def act(run):
        for line in lines:
            say(line.replace(b"%d", str(run).encode()))
        well(run)
    return act


def doze(run=None):
    select.select([], [], [], 300)


def do(*acts):
    """One after the other; what takes no run is wrapped by the caller."""
    def act(run):
        for one in acts:
            one(run)
    return act


def leave_children(run):
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            doze()
    os._exit(0)


def become_another(run):
    os.set_inheritable(3, True)
    os.set_inheritable(4, True)
    os.execv("/bin/sleep", ["sleep", "300"])


LIES = {  # about what has been said, or in how
    "nul": raw(b'{"type":"result","run":%d,"ok":true,"value":"a\0b"}'),
    "bad utf-8": raw(b'{"type":"result","run":%d,"ok":true,"value":"\xff\xfe\xc0"}'),
    "surrogate": raw(b'{"type":"result","run":%d,"ok":true,"value":"\\ud800 \\u0000 x"}'),
    "deep": raw(b'{"type":"result","run":%d,"ok":true,"value":' + b"[" * 400000 + b"]" * 400000 + b"}"),
    "long": lambda run: [os.write(4, b"x" * 100000) for _ in range(40)],
    "number": raw(b'{"type":"result","run":%d,"ok":true,"value":1e999}'),
    "run is a text": raw(b'{"type":"result","run":"%d","ok":true}'),
    "run is negative": raw(b'{"type":"result","run":-1,"ok":true}'),
    "run is a fraction": raw(b'{"type":"result","run":1.5,"ok":true}'),
    "run is null": raw(b'{"type":"result","run":null,"ok":true}'),
    "no ok": raw(b'{"type":"result","run":%d}'),
    "ok is a text": raw(b'{"type":"result","run":%d,"ok":"yes"}'),
    "retry is huge": lambda run: say(result(run, ok=False, error="x", retry=1e300)),
    "retry is negative": lambda run: say(result(run, ok=False, error="x", retry=-5)),
    "error is an object": lambda run: say(result(run, ok=False, error={"a": 1})),
    "error is long": lambda run: say(result(run, ok=False, error="e" * 900000, detail="\x1b[2J" * 1000)),
    "progress": lambda run: [say({"type": "progress", "run": run, "percent": p, "text": "t" * 10000}) for p in (-5, 1e9, "x", None)] + [well(run)],
    "not a number": lambda run: say({"type": "progress", "run": run, "percent": float("nan")}),
    "empty lines": lambda run: (os.write(4, b"\n\r\n   \n\n"), well(run)),
    "bom": raw(b'\xef\xbb\xbf{"type":"result","run":%d,"ok":true}'),
    "null": then_well(b"null"),
    "array": raw(b'[{"type":"result","run":%d,"ok":true}]'),
    "another version": then_well(b'{"type":"hello","version":2,"kinds":{},"concurrency":1000}'),
    "other kinds": then_well(b'{"type":"hello","version":1,"kinds":{"other":{}},"concurrency":1000}'),
    "after the result": do(well, raw(b'{"type":"log","run":%d,"text":"late"}'), raw(b'{"type":"progress","run":%d,"percent":1}'), well),
    "results of nobody": lambda run: [say(result(run + n, value="not mine")) for n in (1000, 10**12)],
}
DEEDS = {  # to itself, and to those that look after it
    "half a line": lambda run: (os.write(4, b'{"type":"result","run":%d,"ok":tr' % run), doze()),
    "closes its output": lambda run: (os.close(4), doze()),
    "closes its input": lambda run: (os.close(3), well(run), doze()),
    "freezes": lambda run: os.kill(os.getpid(), signal.SIGSTOP),
    "freezes its shim": lambda run: (os.kill(os.getppid(), signal.SIGSTOP), well(run)),
    "kills its shim": lambda run: (os.kill(os.getppid(), signal.SIGKILL), well(run)),
    "kills its group": lambda run: os.killpg(0, signal.SIGKILL),
    "leaves children": leave_children,
    "becomes another program": become_another,
    "ends after its result": lambda run: (well(run), os._exit(0)),
    "ends early": lambda run: os._exit(0),
    "aborts": lambda run: os.abort(),
    "is deaf": doze,
    "wants no files": lambda run: (resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0)), well(run)),
    "much on stderr": lambda run: ([os.write(2, b"n" * 100000) for _ in range(100)], well(run)),
    "binary on stdout": lambda run: (os.write(1, bytes(range(256)) * 1000), well(run)),
    "many logs": then_well(*[b'{"type":"log","run":%d,"text":"flood"}'] * 50000),
    "many steps": then_well(*[b'{"type":"step","run":%d,"name":"one of many"}'] * 5000),
    "many pongs": then_well(*[b'{"type":"pong","n":7}'] * 50000),
}
ACTS = LIES | DEEDS


def take(message, later):
    if message["type"] == "ping":
        say({"type": "pong", "n": message["n"]})
    elif message["type"] == "end":
        sys.exit(0)
    elif message["type"] == "task":
        how = message["args"].get("how")
        if how is not None and message["attempt"] == 1:
            ACTS[how](message["run"])
        else:
            later.append((time.monotonic() + 0.02, message["run"]))


def main():
    rest, later = b"", []
    say({"type": "hello", "version": 2, "kinds": {"raw": {}}, "concurrency": CONCURRENCY})
    while True:
        ready, _, _ = select.select([3], [], [], 0.02 if later else None)
        while later and later[0][0] <= time.monotonic():
            well(later.pop(0)[1])
        if ready:
            got = os.read(3, 65536)
            if not got:
                return
            *lines, rest = (rest + got).split(b"\n")
            for line in lines:
                take(json.loads(line), later)


if __name__ == "__main__":
    main()
