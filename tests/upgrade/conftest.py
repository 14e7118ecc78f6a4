"""These tests use the fixtures of the system tests."""
import importlib.util
import sys
from pathlib import Path

SYSTEM = Path(__file__).resolve().parents[1] / "system"
sys.path.insert(0, str(SYSTEM))
spec = importlib.util.spec_from_file_location("system_conftest", SYSTEM / "conftest.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
globals().update({name: value for name, value in vars(module).items() if not name.startswith("__")})
