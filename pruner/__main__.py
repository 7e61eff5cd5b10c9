"""`python -m pruner`: the command line, where no script is on the path."""

from pruner.cli import main

raise SystemExit(main())
