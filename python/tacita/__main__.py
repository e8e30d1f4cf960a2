"""`python -m tacita` is the command line."""

from tacita.cli import main

raise SystemExit(main())
