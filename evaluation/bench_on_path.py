"""Importing this puts the root of the repository on the path, where the package `bench` lies."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
