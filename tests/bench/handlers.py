"""A handler that does nothing, for scripts/bench compare; {"n": N} in its args: it gives back the moment it was called."""
import time

from pgrab_handler import run, task


@task("bench")
async def bench(args):
    return time.time() if "n" in args else None


run(concurrency=12)
