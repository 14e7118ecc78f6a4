"""Tests of pgrab_handler: a real process at the other end of two pipes.  python3 -m unittest"""
import datetime
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import pgrab_handler

HERE = Path(__file__).resolve().parent
TASK = {"type": "task", "id": 7, "attempt": 1, "max_attempts": 3, "fence": "1-2", "fire_at": "2026-11-22T05:00:00.000000Z", "timeout": 60.0}


class Process:
    """A file of handlers, spoken to as a node speaks."""

    def __init__(self, text, run="run()", version="1"):
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "handlers.py"
        path.write_text(f"import asyncio, select, sys, time, threading\nfrom pgrab_handler import *\n{text}\n{run}\n")
        self.socket = None
        if "async def" in text:  # in a loop the descriptors are a socket, as the node's are
            self.socket, theirs = socket.socketpair()
            ours_out = ours_in = self.socket.fileno()
            theirs_in = theirs_out = theirs.fileno()
        else:
            theirs_in, ours_out = os.pipe()
            ours_in, theirs_out = os.pipe()
        env = {**os.environ, "PYTHONPATH": str(HERE), "PGRAB_HANDLER_IN": str(theirs_in), "PGRAB_HANDLER_OUT": str(theirs_out),
               "PGRAB_HANDLER_PROTOCOL": version}
        self.proc = subprocess.Popen([sys.executable, path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     pass_fds=(theirs_in, theirs_out), env=env, text=True)
        if self.socket:
            theirs.close()
        else:
            os.close(theirs_in)
            os.close(theirs_out)
        self.out, self.lines = (open(fd, mode, buffering=0 if mode == "wb" else -1, closefd=not self.socket) for fd, mode in ((ours_out, "wb"), (ours_in, "rb")))

    def tell(self, **message):
        self.out.write(json.dumps(message).encode() + b"\n")

    def give(self, run, kind, **args):
        self.tell(**{**TASK, "run": run, "kind": kind, "args": args})

    def hear(self):
        line = self.lines.readline()
        return json.loads(line) if line else None

    def close(self):
        self.out.close()
        if self.socket:
            self.socket.shutdown(socket.SHUT_WR)
        self.proc.wait(10)
        printed = self.proc.stdout.read()
        self.proc.stdout.close()
        self.lines.close()
        if self.socket:
            self.socket.close()
        self.folder.cleanup()
        return printed


class WithProcess(unittest.TestCase):
    def start(self, text, **options):
        process = Process(text, **options)
        self.addCleanup(lambda: process.proc.poll() is None and process.proc.kill())
        self.addCleanup(lambda: process.out.closed or process.close())
        return process


class OneByOne(WithProcess):
    def test_it_says_hello_does_a_task_and_ends_with_its_node(self):
        p = self.start("@task('greet')\ndef greet(name: str, times: int = 1):\n    print('hello', name)\n    return [name] * times")
        hello = p.hear()
        self.assertEqual((hello["type"], hello["version"], hello["concurrency"]), ("hello", 1, 1))
        self.assertEqual(hello["kinds"]["greet"]["schema"], {
            "type": "object", "properties": {"name": {"type": "string"}, "times": {"type": "integer"}}, "required": ["name"],
            "additionalProperties": False})
        p.give(1, "greet", name="grüße", times=2)
        self.assertEqual(p.hear(), {"type": "result", "run": 1, "ok": True, "value": ["grüße", "grüße"]})
        self.assertEqual(p.close(), "hello grüße\n")
        self.assertEqual(p.proc.returncode, 0)

    def test_a_ping_is_answered_while_a_handler_works(self):
        p = self.start("@task('wait')\ndef wait(ctx):\n    while not ctx.stopping: select.select([], [], [], 0.01)\n    return ctx.stop_reason", run="run(concurrency=2)")
        p.hear()
        p.give(1, "wait")
        p.tell(type="ping", n=9)
        self.assertEqual(p.hear(), {"type": "pong", "n": 9})
        p.tell(type="stop", run=1, reason="cancel")
        self.assertEqual(p.hear()["value"], "cancel")

    def test_a_stop_interrupts_a_handler_that_sleeps_and_the_next_task_is_done(self):
        p = self.start("@task('nap')\ndef nap(seconds):\n    select.select([], [], [], seconds)\n    return 'slept'")
        p.hear()
        p.give(1, "nap", seconds=60)
        p.tell(type="stop", run=1, reason="timeout")
        self.assertEqual(p.hear(), {"type": "result", "run": 1, "ok": False, "error": "stopped: timeout"})
        p.give(2, "nap", seconds=0)
        self.assertEqual(p.hear()["value"], "slept")

    def test_a_stop_in_the_middle_of_a_line_waits_for_its_end(self):
        p = self.start("@task('talk')\ndef talk(ctx):\n    while True: ctx.log('y' * 900000)")
        p.hear()
        for run in range(1, 6):
            p.give(run, "talk")
            self.assertEqual(p.hear()["type"], "log")
            p.tell(type="stop", run=run, reason="timeout")
            while (heard := p.hear())["type"] == "log":
                self.assertEqual(len(heard["text"]) >= 100000, True)
            self.assertEqual(heard, {"type": "result", "run": run, "ok": False, "error": "stopped: timeout"})

    def test_stops_that_cross_results_harm_nothing(self):
        p = self.start("@task('quick')\ndef quick(): return 1")
        p.hear()
        for run in range(1, 300):
            p.give(run, "quick")
            p.tell(type="stop", run=run, reason="cancel")
        for run in range(1, 300):
            result = p.hear()
            self.assertEqual(result["run"], run)
            self.assertTrue(result["ok"] or result["error"] == "stopped: cancel", result)

    def test_failures_say_what_and_where(self):
        p = self.start("""
@task("fail")
def fail(how, ctx):
    if how == "raise": raise ValueError("no\\nsuch")
    if how == "fail": raise Fail("gone", retry="no")
    if how == "exit": sys.exit("enough")
    if how == "value": return {1, 2}
    if how == "long": return "x" * 2000000
""")
        p.hear()
        wanted = {"raise": ("ValueError: no", None), "fail": ("gone", "no"), "exit": ("SystemExit: enough", None),
                  "value": ("what the handler returned is no JSON", "default"), "long": ("at most 1048576 can be sent", "no")}
        for run, (how, (error, retry)) in enumerate(wanted.items()):
            p.give(run, "fail", how=how)
            result = p.hear()
            self.assertIn(error, result["error"])
            self.assertEqual(result.get("retry"), retry, how)
            if how == "raise":
                self.assertIn("in fail", result["detail"])
                self.assertNotIn("pgrab_handler.py", result["detail"])

    def test_wrong_args_are_a_failure_of_that_run(self):
        p = self.start("@task('f')\ndef f(a): pass")
        p.hear()
        p.give(1, "f", b=1)
        self.assertIn("TypeError", p.hear()["error"])

    def test_progress_and_log_are_messages(self):
        p = self.start("@task('f')\ndef f(ctx):\n    ctx.progress(42, 'half')\n    ctx.log('a line')")
        p.hear()
        p.give(5, "f")
        self.assertEqual(p.hear(), {"type": "progress", "run": 5, "percent": 42, "text": "half"})
        self.assertEqual(p.hear(), {"type": "log", "run": 5, "text": "a line"})
        self.assertTrue(p.hear()["ok"])

    def test_whatever_a_handler_says_is_a_message(self):
        p = self.start("""
@task("say")
def say(how, ctx):
    if how == "nan": return {"x": float("nan")}
    if how == "half": return "\\ud800 and \\udcff"
    if how == "deep":
        value = []
        for _ in range(100000): value = [value]
        return value
    if how == "retry": raise Fail("x", retry="later")
    if how == "much":
        ctx.progress(1e9, 7)
        ctx.log("\\udcff")
    raise Exception("\\udcff")
""")
        p.hear()
        wanted = {"nan": "is no JSON", "deep": "nested too deep", "retry": "retry cannot be 'later'"}
        for run, (how, error) in enumerate(wanted.items()):
            p.give(run, "say", how=how)
            self.assertIn(error, p.hear()["error"])
        p.give(7, "say", how="half")
        self.assertEqual(p.hear()["value"], "? and ?")
        p.give(8, "say", how="much")
        self.assertEqual(p.hear(), {"type": "progress", "run": 8, "percent": 100, "text": "7"})
        self.assertEqual(p.hear()["text"], "?")
        self.assertEqual(p.hear()["error"], "Exception: ?")

    NEST = """
sys.setrecursionlimit(4000)
def nest(depth):
    inside = []
    for n in range(depth - 1): inside = {"a": inside} if n % 2 else [inside]
    return inside
"""

    def test_a_result_that_is_nested_deeper_than_a_node_reads_fails_its_run_alone(self):
        p = self.start(self.NEST + """
texts = {"quotes": ["[" * 5000, "\\\\", '"' * 5000 + "{" * 5000], "wide": [[{}]] * 5000}
@task("f")
def f(depth: int = 0, what: str = ""): return texts[what] if what else nest(depth)
""")
        p.hear()
        for depth in (901, 1500, 100000):
            p.give(1, "f", depth=depth)
            result = p.hear()
            self.assertEqual((result["ok"], result.get("retry")), (False, "no"))
            self.assertIn("what the handler returned is nested too deep, and at most 900 levels can be",
                          result["error"])
        for args in ({"depth": 900}, {"what": "quotes"}, {"what": "wide"}):
            p.give(2, "f", **args)
            self.assertTrue(p.hear()["ok"], args)

    def test_what_a_node_would_take_for_the_end_of_a_text_is_replaced(self):
        p = self.start("""
@task("f")
def f(ctx, how: str = ""):
    if how == "fail": raise Fail("a\\0b")
    if how == "raise": raise ValueError("a\\0b \\\\u0000")
    ctx.progress(1, "a\\0b")
    ctx.log("a\\0b")
    return "a\\0b"
""")
        p.hear()
        for how, error in (("fail", "a\ufffdb"), ("raise", "ValueError: a\ufffdb \\u0000")):
            p.give(1, "f", how=how)
            result = p.hear()
            self.assertEqual(result["error"], error)
            self.assertIn(error if how == "raise" else "", result.get("detail", ""))
        p.give(2, "f")
        self.assertEqual([p.hear()["text"], p.hear()["text"]], ["a\ufffdb"] * 2)
        self.assertEqual(p.hear()["value"], "a\0b", "a value is kept as it is")

    def test_a_row_that_cannot_be_read_fails_alone(self):
        p = self.start("@task('f')\ndef f(n: list = []): return 'done'", run="run(2)")
        p.hear()
        line = json.dumps({**TASK, "run": 1, "kind": "f", "args": {}}).replace('"args": {}', '"args": {"n": ' + "[" * 100000 + "]" * 100000 + "}")
        p.out.write(line.encode() + b"\n" + json.dumps({**TASK, "run": 2, "kind": "f", "args": {}}).encode() + b"\n")
        results = {r["run"]: r for r in (p.hear(), p.hear())}
        self.assertEqual((results[1]["ok"], results[1]["retry"], results[2]["value"]), (False, "no", "done"))
        self.assertIn("cannot be read", results[1]["error"])

    def test_whatever_is_raised_is_answered(self):
        for run, kind in (("run()", "one by one"), ("run(2)", "threads")):
            with self.subTest(kind):
                p = self.start("""
class Own(BaseException): pass
class Silent(Exception):
    def __str__(self): raise ValueError("no")
raised = {"own": Own("x"), "key": KeyboardInterrupt("y"), "silent": Silent()}
@task('f')
def f(what: str): raise raised[what]
@task('closes')
def closes(): sys.stdout.close()
""", run=run)
                p.hear()
                for n, (what, error) in enumerate({"own": "Own: x", "key": "KeyboardInterrupt: y", "silent": "Silent"}.items()):
                    p.give(n, "f", what=what)
                    self.assertIn(error, p.hear()["error"])
                p.give(8, "closes")
                self.assertEqual(p.hear()["run"], 8)
                p.give(9, "f", what="own")
                self.assertEqual(p.hear()["run"], 9)

    def test_end_ends_it(self):
        p = self.start("@task('f')\ndef f(): pass")
        p.hear()
        p.tell(type="end")
        self.assertIsNone(p.hear())
        self.assertEqual(p.proc.wait(10), 0)

    def test_without_a_node_or_with_another_version_it_says_so(self):
        done = subprocess.run([sys.executable, "-c", "from pgrab_handler import *; task('f')(lambda: 1); run()"], cwd=HERE, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("[pool NAME] section", done.stderr)
        p = self.start("@task('f')\ndef f(): pass", version="8 9")
        self.assertIsNone(p.hear())
        self.assertIn("speaks version 8 9 of the protocol", p.close())


class Loop(WithProcess):
    ASYNC = """
gates, go_on = [], threading.Event()
@task("wait")
async def wait(n, ctx):
    gates.append(asyncio.Event())
    await gates[-1].wait()
    return n
@task("open")
async def open_(ctx):
    for gate in gates: gate.set()
@task("plain")
def plain(ctx): return threading.current_thread() is threading.main_thread()
@task("hold")
def hold(ctx):
    ctx.log("begins")
    go_on.wait()
    ctx.check()
    return "went on"
@task("hold_beside")
async def hold_beside(n, ctx):
    await asyncio.gather(*(asyncio.get_running_loop().run_in_executor(None, hold, ctx) for _ in range(n)))
@task("go_on")
async def release(ctx): go_on.set()
@task("block")
async def block(ctx):
    ctx.log("begins")
    select.select([sys.stdin], [], [])
@task("exit")
async def exit_(ctx): sys.exit("enough")
async def work(ctx, held):
    ctx.log("begins")
    try:
        await gate_of(held)
    finally:
        await asyncio.sleep(0.05)
        ctx.log("ends")
def gate_of(held):
    gates.append(asyncio.Event())
    return gates[-1].wait()
@task("shield")
async def shield(ctx): await asyncio.shield(work(ctx, 1))
@task("child")
async def child(ctx):
    task = asyncio.create_task(work(ctx, 2))
    await asyncio.wait([task])
@task("gather")
async def gather(ctx):
    async def fails():
        await asyncio.sleep(0.05)
        raise ValueError("one of them")
    await asyncio.gather(work(ctx, 3), fails())
@task("leaves")
async def leaves(ctx):
    asyncio.create_task(gate_of(4))
    return "done"
@task("interrupted")
async def interrupted(ctx): raise KeyboardInterrupt("in a coroutine")
@task("closes")
async def closes(ctx): sys.stdout = None
"""

    def setUp(self):
        import socket
        self.p = None
        self.socket = socket

    def start_loop(self):
        """In a loop the descriptors are a socket, as the node's are."""
        ours, theirs = self.socket.socketpair()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "handlers.py"
        path.write_text(f"import asyncio, select, sys, threading\nfrom pgrab_handler import *\n{self.ASYNC}\nrun()\n")
        fd = theirs.fileno()
        env = {**os.environ, "PYTHONPATH": str(HERE), "PGRAB_HANDLER_IN": str(fd), "PGRAB_HANDLER_OUT": str(fd), "PGRAB_HANDLER_PROTOCOL": "1"}
        proc = subprocess.Popen([sys.executable, path], stdin=subprocess.PIPE, pass_fds=(fd,), env=env)
        theirs.close()
        self.addCleanup(lambda: (proc.stdin.close(), ours.close(), proc.wait(10)))
        ours.settimeout(20)
        lines = ours.makefile("rb")
        self.addCleanup(lines.close)
        return proc, lambda **m: ours.sendall(json.dumps(m).encode() + b"\n"), lambda: json.loads(lines.readline())

    def test_many_wait_at_once_and_a_stop_cancels_one(self):
        _, tell, hear = self.start_loop()
        self.assertEqual(hear()["concurrency"], 100)
        for n in range(3):
            tell(**{**TASK, "run": n, "kind": "wait", "args": {"n": n}})
        tell(type="ping", n=4)
        self.assertEqual(hear(), {"type": "pong", "n": 4})
        tell(type="stop", run=1, reason="cancel")
        self.assertEqual(hear(), {"type": "result", "run": 1, "ok": False, "error": "stopped: cancel"})
        tell(**{**TASK, "run": 3, "kind": "open", "args": {}})
        results = [hear() for _ in range(3)]
        self.assertEqual({r["run"]: r["value"] for r in results}, {0: 0, 2: 2, 3: None})
        tell(**{**TASK, "run": 4, "kind": "plain", "args": {}})
        self.assertIs(hear()["value"], False)
        tell(**{**TASK, "run": 5, "kind": "exit", "args": {}})
        self.assertEqual(hear()["error"], "SystemExit: enough")
        tell(**{**TASK, "run": 6, "kind": "wait", "args": {"m": 1}})
        self.assertIn("TypeError", hear()["error"])

    def test_a_stop_is_not_answered_while_a_thread_of_the_run_goes_on(self):
        """The node would begin the next attempt beside it."""
        for kind, threads in (("hold", 1), ("hold_beside", 1), ("hold_beside", 3)):
            with self.subTest(kind, threads=threads):
                _, tell, hear = self.start_loop()
                hear()
                tell(**{**TASK, "run": 1, "kind": kind, "args": {"n": threads} if kind == "hold_beside" else {}})
                for _ in range(threads):
                    self.assertEqual(hear()["text"], "begins")
                tell(type="stop", run=1, reason="timeout")
                tell(**{**TASK, "run": 2, "kind": "plain", "args": {}})
                self.assertEqual(hear()["run"], 2, "the first has not ended")
                tell(**{**TASK, "run": 3, "kind": "go_on", "args": {}})
                last = {result["run"]: result for result in (hear(), hear())}
                self.assertEqual(last[1], {"type": "result", "run": 1, "ok": False, "error": "stopped: timeout"})

    def test_a_run_that_failed_is_not_answered_while_a_task_of_it_goes_on(self):
        """Nor one that was stopped: what it began is cancelled with it, and has time to clean up."""
        for kind, error in (("shield", "stopped: timeout"), ("child", "stopped: timeout"), ("gather", "ValueError: one of them")):
            with self.subTest(kind):
                _, tell, hear = self.start_loop()
                hear()
                tell(**{**TASK, "run": 1, "kind": kind, "args": {}})
                self.assertEqual(hear()["text"], "begins")
                if kind != "gather":
                    tell(type="stop", run=1, reason="timeout")
                self.assertEqual(hear().get("text"), "ends")
                self.assertEqual(hear()["error"], error)

    def test_what_a_run_leaves_behind_that_succeeded_is_left_alone(self):
        """A pool of connections, say, that the first run has made."""
        _, tell, hear = self.start_loop()
        hear()
        tell(**{**TASK, "run": 1, "kind": "leaves", "args": {}})
        self.assertEqual(hear()["value"], "done")

    def test_no_run_takes_others_along(self):
        """Whatever is raised, whatever becomes of stdout, and whatever stands in the row."""
        _, tell, hear = self.start_loop()
        hear()
        tell(**{**TASK, "run": 1, "kind": "interrupted", "args": {}})
        self.assertEqual(hear()["error"], "KeyboardInterrupt: in a coroutine")
        tell(**{**TASK, "run": 2, "kind": "closes", "args": {}})
        self.assertEqual((hear()["run"], tell(type="ping", n=1), hear()["n"]), (2, None, 1))
        tell(**{**TASK, "run": 3, "kind": "plain", "args": {}})
        self.assertIs(hear()["value"], False)

    def test_what_was_done_in_spite_of_a_stop_is_what_is_answered(self):
        self.ASYNC = self.ASYNC.replace("    ctx.check()\n", "")
        _, tell, hear = self.start_loop()
        hear()
        tell(**{**TASK, "run": 1, "kind": "hold", "args": {}})
        hear()
        tell(type="stop", run=1, reason="timeout")
        tell(**{**TASK, "run": 2, "kind": "go_on", "args": {}})
        results = {result["run"]: result for result in (hear(), hear())}
        self.assertEqual(results[1], {"type": "result", "run": 1, "ok": True, "value": "went on"})

    def test_a_task_that_is_stopped_before_its_first_step_is_answered(self):
        proc, tell, hear = self.start_loop()
        hear()
        tell(**{**TASK, "run": 1, "kind": "block", "args": {}})
        self.assertEqual(hear()["text"], "begins")
        tell(**{**TASK, "run": 2, "kind": "wait", "args": {"n": 2}})
        tell(type="stop", run=2, reason="cancel")
        proc.stdin.write(b"go on")
        proc.stdin.flush()
        results = {result["run"]: result for result in (hear(), hear())}
        self.assertEqual([results[1]["ok"], results[2]["error"]], [True, "stopped: cancel"])


class Statements(unittest.TestCase):
    def test_type_hints_as_schema(self):
        from typing import Dict, List, Literal, Optional

        def f(a: int, b: Optional[str], c: List[float], d: Dict[str, int], e: Literal["x", 1], g, h: "no such name" = 1, **rest): ...  # noqa: F821
        self.assertEqual(set(pgrab_handler._schema_of(f)["properties"]), set("abcdegh"))

        def k(a: int, b: Optional[str], c: List[float], d: Dict[str, int], e: Literal["x", 1], g, **rest): ...
        self.assertEqual(pgrab_handler._schema_of(k), {
            "type": "object", "required": ["a", "b", "c", "d", "e", "g"], "additionalProperties": True, "properties": {
                "a": {"type": "integer"}, "b": {"type": ["string", "null"]}, "c": {"type": "array", "items": {"type": "number"}},
                "d": {"type": "object"}, "e": {"enum": ["x", 1]}, "g": {}}})

    def test_names_of_kinds(self):
        for kind in ("Send", "1a", "a-b", "a" * 33, ""):
            with self.assertRaises(ValueError):
                pgrab_handler.task(kind)

    def test_a_handler_is_called_for_a_test(self):
        @pgrab_handler.task("for_a_test")
        def handler(n: int, ctx):
            ctx.progress(1)
            return n + ctx.attempt
        self.assertEqual(pgrab_handler.call("for_a_test", {"n": 1}, attempt=4), 5)

    def test_key_and_trace_of_the_run(self):
        @pgrab_handler.task("key_for_a_test")
        def handler(ctx):
            return f"{ctx.idempotency_key} {ctx.traceparent}"
        keys = [pgrab_handler.call("key_for_a_test", id=7, attempt=n, fence=f"1-{n}", fire_at="2026-11-22T05:00:00.000000Z") for n in (1, 2)]
        self.assertEqual(keys, ["7-2026-11-22T05:00:00.000000Z None"] * 2)
        self.assertEqual(pgrab_handler.call("key_for_a_test", traceparent="00-1-2-01").split()[1], "00-1-2-01")

    def test_a_call_is_as_a_node_would_make_it(self):
        from typing import List, Literal, Optional

        @pgrab_handler.task("coroutine_for_a_test")
        async def coroutine(n: int, names: List[str] = [], how: Optional[Literal["a", "b"]] = None):
            return (n, names, how)
        call = pgrab_handler.call
        self.assertEqual(call("coroutine_for_a_test", {"n": 1, "names": ["x"]}), [1, ["x"], None], "awaited, and as JSON")
        for args, why in (({}, "args.n is missing"), ({"n": "1"}, "args.n must be of type integer"), ({"n": True}, "args.n must be of type integer"),
                          ({"n": 1, "m": 1}, "args.m is unknown"), ({"n": 1, "names": [1]}, r"args.names\[0\] must be of type string"),
                          ([], "args must be of type object")):
            with self.assertRaisesRegex(ValueError, why):
                call("coroutine_for_a_test", args)
        self.assertEqual(call("coroutine_for_a_test", {"n": 1.0})[0], 1)
        with self.assertRaisesRegex(ValueError, "there is no handler of kind nobody"):
            call("nobody")

        @pgrab_handler.task("no_json_for_a_test", schema={"properties": {"how": {"enum": ["a"]}}, "required": ["how"]})
        def no_json(args):
            return object()
        with self.assertRaisesRegex(pgrab_handler.Fail, "is no JSON"):
            call("no_json_for_a_test", {"how": "a"})
        with self.assertRaisesRegex(ValueError, "args.how must be one of"):
            call("no_json_for_a_test", {"how": "b"})


class Steps(WithProcess):
    PLAIN = "@task('order')\ndef order(ctx):\n    one = ctx.step('pay', lambda: print('paid') or (1, 2))\n    return [one, ctx.step('pack', str, 7), ctx.step('pay', print)]"
    AWAITED = """@task('order')
async def order(ctx):
    async def pay():
        print('paid')
        return (1, 2)
    one = await ctx.step('pay', pay)
    return [one, await ctx.step('pack', str, 7), await ctx.step('pay', print)]"""

    def begin(self, text, steps=(), **options):
        p = self.start(text, version="1 2", **options)
        self.assertEqual(p.hear()["version"], 2)
        p.tell(**{**TASK, "run": 1, "kind": "order", "args": {}, **({"steps": list(steps)} if steps else {})})
        return p

    def texts(self):
        return [("plain", self.PLAIN, {}), ("threads", self.PLAIN, {"run": "run(concurrency=3)"}), ("awaited", self.AWAITED, {})]

    def test_the_result_waits_for_the_record(self):
        for name, text, options in self.texts():
            with self.subTest(name):
                p = self.begin(text, **options)
                self.assertEqual(p.hear(), {"type": "step", "run": 1, "name": "pay", "result": [1, 2]})
                p.tell(type="ping", n=1)
                self.assertEqual(p.hear()["type"], "pong", "nothing comes before the answer")
                p.tell(type="step", run=1, name="pay", recorded=True, result=[1, 2])
                self.assertEqual(p.hear(), {"type": "step", "run": 1, "name": "pack", "result": "7"})
                p.tell(type="step", run=1, name="pack", recorded=True, result="7")
                self.assertEqual(p.hear()["value"], [[1, 2], "7", [1, 2]])

    def test_what_is_recorded_is_not_done_again(self):
        for name, text, options in self.texts():
            with self.subTest(name):
                p = self.begin(text, steps=["pay", "old"], **options)
                self.assertEqual(p.hear(), {"type": "step", "run": 1, "name": "pay"})
                p.tell(type="step", run=1, name="pay", recorded=True, result="earlier")
                p.hear()
                p.tell(type="step", run=1, name="pack", recorded=True, result="other")
                self.assertEqual(p.hear()["value"], ["earlier", "other", "earlier"], "what is recorded counts, not what was returned")
                self.assertNotIn("paid", p.close())

    def test_what_is_refused_ends_the_run_whatever_is_made_of_it(self):
        for name, text, options in self.texts():
            with self.subTest(name):
                step = "ctx.step('pay', print)" if "async" not in text else "await ctx.step('pay', print)"
                head = text.split("\n", 2)[1]
                p = self.begin(f"@task('order')\n{head}\n    try:\n        {step}\n    except BaseException:\n        pass\n    return 'fine'", **options)
                p.hear()
                p.tell(type="step", run=1, name="pay", recorded=False, error="this run is over")
                result = p.hear()
                self.assertEqual((result["ok"], result["error"]), (False, "step pay was not recorded: this run is over"))

    def test_a_wait_ends_the_run_until_what_it_waits_for_has_come(self):
        text = "@task('order')\ndef order(ctx):\n    try:\n        return ctx.wait('go', 60)\n    except TimedOut:\n        return 'too late'"
        for text, options in [(text, {}), (text.replace("def order", "async def order").replace("ctx.wait", "await ctx.wait"), {})]:
            for answer, result in [({"recorded": False}, {"ok": False, "wait": "go", "timeout": 60}),
                                   ({"recorded": True, "result": {"payload": [7]}}, {"ok": True, "value": [7]}),
                                   ({"recorded": True, "result": {"timed_out": True}}, {"ok": True, "value": "too late"})]:
                with self.subTest(text=text, answer=answer):
                    p = self.begin("from pgrab_handler import TimedOut\n" + text, **options)
                    self.assertEqual(p.hear(), {"type": "step", "run": 1, "name": "wait:go"})
                    p.tell(type="step", run=1, name="wait:go", **answer)
                    self.assertEqual(p.hear(), {"type": "result", "run": 1, **result})

    def test_a_wait_ends_the_run_whatever_is_made_of_it(self):
        p = self.begin("@task('order')\ndef order(ctx):\n    try:\n        ctx.sleep('night', 3600)\n    except BaseException:\n        pass\n    return 'fine'")
        p.hear()
        p.tell(type="step", run=1, name="wait:night", recorded=False)
        self.assertEqual(p.hear(), {"type": "result", "run": 1, "ok": False, "wait": "night", "timeout": 3600})

    def test_what_cannot_be_waited_for(self):
        for call, why in [("ctx.wait('a b')", "the name of a signal is"), ("ctx.wait('go', -1)", "a timeout cannot be -1"), ("ctx.step('wait:go', print)", "names that begin with wait:")]:
            with self.subTest(call=call):
                self.assertIn(why, self.begin(f"@task('order')\ndef order(ctx):\n    {call}").hear()["error"])

    def test_what_cannot_be_a_step(self):
        for call, why in [("ctx.step('', print)", "1 to 200 bytes"), ("ctx.step('x' * 201, print)", "1 to 200 bytes"), ("ctx.step(7, print)", "1 to 200 bytes"), ("ctx.step('a\\0b', print)", "without NUL"),
                          ("ctx.step('a', object)", "is no JSON"), ("ctx.step('a', lambda: 'x' * 65535)", "65537 bytes long"),
                          ("ctx.step('a', nest, 901)", "what step a returned is nested too deep"),
                          ("ctx.step('a', nest, 100000)", "what step a returned is nested too deep"),
                          ("ctx.step('a', lambda: ctx.step('a', print))", "under way already")]:
            with self.subTest(call):
                p = self.begin(f"{OneByOne.NEST}\n@task('order')\ndef order(ctx):\n    {call}")
                self.assertIn(why, p.hear()["error"])

    def test_a_node_that_is_too_old(self):
        p = self.start(self.PLAIN)
        self.assertEqual(p.hear()["version"], 1)
        p.give(1, "order")
        self.assertIn("too old to record steps", p.hear()["error"])

    MANY = [("threads", """
from concurrent.futures import ThreadPoolExecutor
@task('order')
def order(ctx):
    with ThreadPoolExecutor(620) as threads: list(threads.map(lambda n: ctx.step(str(n), int, n), range(620)))
    return 'done'"""), ("awaited", """
@task('order')
async def order(ctx):
    await asyncio.gather(*(ctx.step(str(n), int, n) for n in range(620)))
    return 'done'""")]

    def test_at_most_500_wait_for_their_answers(self):
        for name, text in self.MANY:
            with self.subTest(name):
                p = self.begin(text)
                heard = [p.hear()["name"] for _ in range(500)]
                p.tell(type="ping", n=1)
                self.assertEqual(p.hear()["type"], "pong", "no more come before an answer")
                for n in range(620):
                    p.tell(type="step", run=1, name=heard[n], recorded=True, result=n)
                    heard += [p.hear()["name"]] if n < 120 else []
                self.assertEqual(sorted(map(int, heard)), list(range(620)))
                if name == "awaited":
                    self.assertEqual(heard, [str(n) for n in range(620)], "in order")
                self.assertEqual(p.hear()["value"], "done")

    def test_a_stop_is_told_to_those_that_have_not_been_sent_too(self):
        for name, text in self.MANY:
            with self.subTest(name):
                p = self.begin(text, **({} if name == "awaited" else {"run": "run(2)"}))
                for _ in range(500):
                    p.hear()
                p.tell(type="stop", run=1, reason="cancel")
                self.assertEqual(p.hear()["error"], "stopped: cancel")

    def test_a_stop_ends_the_wait_for_an_answer(self):
        for name, text, options in self.texts():
            with self.subTest(name):
                p = self.begin(text, **options)
                p.hear()
                p.tell(type="stop", run=1, reason="cancel")
                self.assertEqual(p.hear()["error"], "stopped: cancel")

    def test_an_answer_that_cannot_be_read_ends_the_run_and_no_other(self):
        for name, text, options in self.texts():
            with self.subTest(name):
                p = self.begin(text, **options)
                p.hear()
                p.out.write(b'{"type": "step", "run": 1, "name": "pay", "recorded": true, "result": ' + b"[" * 100000 + b"]" * 100000 + b"}\n")
                self.assertIn("it cannot be read here: RecursionError", p.hear()["error"])
                p.give(2, "order")
                self.assertEqual((p.hear() or {}).get("name"), "pay", "the process goes on")

    GATES = """
gates = {"a": threading.Event(), "fail": threading.Event()}
async def opened(name):
    while not gates[name].is_set(): await asyncio.sleep(0.01)
def beside(ctx, name, function, *args):
    def step():
        try:
            ctx.step(name, function, *args)
        except BaseException as e:
            ctx.log(str(e))
    threading.Thread(target=step, daemon=True).start()
@task("open")
def open_(name): gates[name].set()
"""
    BESIDE = GATES + """
@task('order')
def order(ctx):
    beside(ctx, 'slow', gates['a'].wait)
"""
    BESIDE_AWAITED = GATES + """
kept = []
@task('order')
async def order(ctx):
    kept.append(asyncio.create_task(ctx.step('slow', opened, 'a')))
    await asyncio.sleep(0)
"""

    def beside(self):
        beside_loop = "@task('other')\nasync def other(): pass\n" + self.BESIDE
        return [("threads", self.BESIDE, {"run": "run(concurrency=3)"}), ("awaited", self.BESIDE_AWAITED, {}),
                ("beside a loop", beside_loop, {})]

    def refusable(self):
        plain = self.BESIDE.replace("'slow', gates['a'].wait", "'a', int") + "    return 7"
        awaited = self.BESIDE_AWAITED.replace("'slow', opened, 'a'", "'a', int") + "    return 7"
        return [("plain", plain, {}), ("threads", plain, {"run": "run(3)"}), ("awaited", awaited, {})]

    def silent(self, p):
        p.tell(type="ping", n=1)
        self.assertEqual(p.hear(), {"type": "pong", "n": 1}, "nothing of the run comes")

    def test_a_run_is_answered_when_the_steps_beside_it_are_over(self):
        ends = [("return 7", {"ok": True, "value": 7}),
                ("raise Fail('no', retry=0)", {"ok": False, "error": "no", "retry": 0})]
        for name, text, options in self.beside():
            for end, result in ends[:1] if name == "awaited" else ends:  # in a loop a failure cancels
                with self.subTest(name, end=end):
                    p = self.begin(f"{text}    {end}\n", **options)
                    self.silent(p)
                    p.give(9, "open", name="a")
                    heard = {one["run"]: one for one in (p.hear(), p.hear())}
                    self.assertEqual((heard[9]["ok"], heard[1].get("name")), (True, "slow"))
                    self.silent(p)
                    p.tell(type="step", run=1, name="slow", recorded=True, result=None)
                    self.assertEqual(p.hear(), {"type": "result", "run": 1, **result})

    def test_a_step_that_is_refused_after_its_handler_has_ended_fails_the_run(self):
        for name, text, options in self.refusable():
            with self.subTest(name):
                p = self.begin(text, **options)
                self.assertEqual(p.hear()["name"], "a")
                p.tell(type="step", run=1, name="a", recorded=False, error="no")
                heard = p.hear()
                heard = p.hear() if heard["type"] == "log" else heard
                self.assertEqual(heard.get("error"), "step a was not recorded: no")

    def test_a_stop_is_told_to_the_steps_of_a_handler_that_has_ended(self):
        for name, text, options in self.refusable():
            with self.subTest(name):
                p = self.begin(text, **options)
                self.assertEqual(p.hear()["name"], "a")
                self.silent(p)
                p.tell(type="stop", run=1, reason="timeout")
                heard = [p.hear()] if name == "awaited" else [p.hear(), p.hear()]
                self.assertEqual(heard[-1], {"type": "result", "run": 1, "ok": True, "value": 7})

    def test_threads_of_a_run_that_has_failed_are_told_and_begin_nothing_more(self):
        text = self.GATES + """
def look(ctx):
    while not ctx.stopping: time.sleep(0.01)
    ctx.log(ctx.stop_reason)
@task('order')
def order(ctx):
    beside(ctx, 'look', look, ctx)
    def late():
        gates['a'].wait()
        beside(ctx, 'late', ctx.log, 'begun')
    threading.Thread(target=late, daemon=True).start()
    raise ValueError('oh')
"""
        for run in ("run(3)", "run()"):
            with self.subTest(run):
                p = self.begin(text, run=run)
                self.assertEqual(p.hear()["text"], "ended")
                self.assertEqual(p.hear()["name"], "look")
                p.tell(type="step", run=1, name="look", recorded=True, result=None)
                self.assertEqual(p.hear()["error"], "ValueError: oh")
                p.give(9, "open", name="a")
                heard = sorted((p.hear(), p.hear()), key=lambda one: one["run"])
                self.assertEqual((heard[0]["text"], heard[1]["ok"]), ("this run has ended", True))

    def test_call_records_here(self):
        @pgrab_handler.task("stepped")
        def stepped(ctx):
            return [ctx.step("a", lambda: (1,)), ctx.step("b", lambda: 2)]
        self.addCleanup(pgrab_handler._handlers.pop, "stepped")
        self.assertEqual(pgrab_handler.call("stepped"), [[1], 2])
        self.assertEqual(pgrab_handler.call("stepped", steps={"b": "earlier"}), [[1], "earlier"])

    def test_call_waits(self):
        @pgrab_handler.task("waits")
        def waits(ctx):
            return ctx.wait("go", datetime.timedelta(days=1))
        self.addCleanup(pgrab_handler._handlers.pop, "waits")
        self.assertEqual(pgrab_handler.call("waits", waits={"go": {"by": "ann"}}), {"by": "ann"})
        with self.assertRaises(pgrab_handler.Waiting) as raised:
            pgrab_handler.call("waits")
        self.assertEqual((raised.exception.name, raised.exception.timeout), ("go", 86400))


if __name__ == "__main__":
    signal.alarm(120)
    unittest.main()
