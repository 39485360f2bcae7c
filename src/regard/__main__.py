"""``python -m regard``: the command line where no ``regard`` is on the path."""

import sys

from regard.cli import main

if __name__ == "__main__":
    sys.exit(main())
