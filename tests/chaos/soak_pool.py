"""Handlers of the soak in Python: they do next to nothing, many at once."""
from pgrab_handler import run, task


@task("soak_py")
async def soak_py(n: int):
    return n


run(concurrency=8)
