"""The benchmarks' modules import each other, and the cluster of the system tests."""
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system")]
