"""As `python -m bench freeze`, for a few hours more."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["freeze", *sys.argv[1:]]))
