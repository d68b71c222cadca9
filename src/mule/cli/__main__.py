"""`python -m mule.cli` is the command `mule`."""

import sys

from mule.cli.main import main

sys.exit(main())
