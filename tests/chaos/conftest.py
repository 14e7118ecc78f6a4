"""The chaos suite's tests use the fixtures of the system tests."""
import importlib.util
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SYSTEM = HERE.parent / "system"
sys.path[:0] = [str(SYSTEM), str(HERE)]
spec = importlib.util.spec_from_file_location("system_conftest", SYSTEM / "conftest.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
globals().update({name: value for name, value in vars(module).items() if not name.startswith("__")})
