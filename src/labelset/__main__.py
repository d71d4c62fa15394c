"""`python -m labelset`."""

import sys

from labelset.cli import main

sys.exit(main())
