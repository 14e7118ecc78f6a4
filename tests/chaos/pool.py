"""Handlers of a seed, some of which are bad: many at once, coroutines and plain functions beside them; or, as `one`, one at a time."""
import asyncio
import fcntl
import os
import select
import sys
import time

from pgrab_handler import TimedOut, run, task

PROBE = os.environ["PROBE_FILE"]


class Trace:
    """What probe.sh writes; the lock of the task is held until the handler has ended."""

    def __init__(self, ctx, tag):
        self.ctx, self.tag = ctx, tag

    def line(self, what):
        ctx = self.ctx
        fields = (what, self.tag, ctx.id, ctx.fire_at, ctx.attempt, ctx.fence, os.getpid(), f"{time.time():.6f}")
        with open(PROBE, "a", encoding="utf-8") as f:
            f.write("\t".join(map(str, fields)) + "\n")

    def __enter__(self):
        self.lock = open(f"{PROBE}.{self.tag}.lock", "ab")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.line("overlap")
        self.line("start")
        return self

    def __exit__(self, *_):
        self.lock.close()


def doze(seconds):
    """Nobody interrupts it, and the event loop stands still."""
    select.select([], [], [], seconds)


def write(text):
    os.write(int(os.environ["PGRAB_HANDLER_OUT"]), text.encode() + b"\n")


def misbehave(how, trace):
    """On its first attempt: what no other task may pay for."""
    ctx = trace.ctx
    if ctx.attempt > 1:
        return
    if how == "dies":
        os._exit(3)
    if how == "hangs":
        doze(10)
    if how == "floods":
        for _ in range(2000):
            ctx.log("x" * 500)
            print("y" * 500)
    if how == "nonsense":
        write("this is no message")
    if how == "stranger":
        write('{"type":"result","run":987654321,"ok":true}')
    if how == "hello":
        write('{"type":"hello","version":1,"kinds":{}}')
    if how == "twice":
        trace.line("end")
        trace.lock.close()
        write('{"type":"result","run":%d,"ok":true}' % ctx._run)


async def deaf(seconds):
    """It does not stop when it is asked to."""
    for _ in range(int(seconds * 20)):
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            pass


ONE = sys.argv[1:] == ["one"]


def beside_others(kind):
    """Not where there is one at a time: a coroutine would make it a loop."""
    return (lambda function: function) if ONE else task(kind)


@beside_others("py_many")
async def many(tag, seconds, how, ctx):
    with Trace(ctx, tag) as trace:
        misbehave(how, trace)
        if how == "deaf" and ctx.attempt == 1:
            await deaf(30)
        await asyncio.sleep(seconds)
        trace.line("end")


@beside_others("py_beside")
def beside(tag, seconds, how, ctx):
    with Trace(ctx, tag) as trace:
        misbehave(how, trace)
        doze(30 if how == "deaf" and ctx.attempt == 1 else seconds)
        trace.line("end")


@beside_others("py_thread")
async def thread(tag, seconds, how, ctx):
    await asyncio.get_running_loop().run_in_executor(None, beside, tag, seconds, how, ctx)


def did(what, tag, ctx):
    """The key is the same in each attempt of a fire."""
    with open(os.environ["STEPS_FILE"], "a", encoding="utf-8") as f:
        f.write(f"{tag}\t{what}\t{ctx.id}-{ctx.fire_at}-{what}\t{os.getpid()}\t{time.time():.6f}\n")


@beside_others("py_waits")
async def waits(tag, patience, ctx):
    await ctx.step("pay", did, "pay", tag, ctx)
    try:
        by = (await ctx.wait("approved", patience))["by"]
    except TimedOut:
        by = "nobody"
    await ctx.step("ship", did, "ship", tag, ctx)
    return by


def waits_one(tag, patience, ctx):
    ctx.step("pay", did, "pay", tag, ctx)
    try:
        by = ctx.wait("approved", patience)["by"]
    except TimedOut:
        by = "nobody"
    ctx.step("ship", did, "ship", tag, ctx)
    return by


if ONE:
    task("py_one")(beside)
    task("py_waits_one")(waits_one)


run(concurrency=1 if ONE else 8)
