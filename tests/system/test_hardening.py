"""What the compiler and the linker were asked for is in the program."""
import re
import shutil
import subprocess

import pytest
from cluster import pgrab_bin

pytestmark = pytest.mark.skipif(not shutil.which("readelf"), reason="readelf (binutils) is not installed")


def readelf(*options):
    return subprocess.run(["readelf", "-W", *options, pgrab_bin()], capture_output=True, text=True, check=True).stdout


def test_the_program_is_position_independent():
    assert re.search(r"Type:\s+DYN \(Position-Independent Executable", readelf("-h"))


def test_what_the_linker_fills_in_is_read_only_from_the_start():
    assert "GNU_RELRO" in readelf("-l")
    dynamic = readelf("-d")
    assert "BIND_NOW" in dynamic and re.search(r"Flags:.*\bNOW\b", dynamic)


def test_the_stack_is_not_executable():
    assert re.search(r"GNU_STACK\s+.*\bRW\b(?!E)", readelf("-l"))


def test_stacks_and_copies_are_checked():
    symbols = readelf("--dyn-syms")
    if "__asan_init" in symbols:
        pytest.skip("a build with sanitizers checks more, and in another way")
    assert "__stack_chk_fail" in symbols
    assert "__memcpy_chk" in symbols or "__snprintf_chk" in symbols


def test_indirect_branches_land_where_they_may():
    if "X86-64" not in readelf("-h") or not shutil.which("objdump"):
        pytest.skip("-fcf-protection is for x86, and objdump shows it")
    code = subprocess.run(["objdump", "-d", "--disassemble=keeper_main", pgrab_bin()], capture_output=True, text=True, check=True).stdout
    assert "endbr64" in code
