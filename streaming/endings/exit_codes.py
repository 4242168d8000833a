"""What the command's exit codes say; the table for users is in README.md."""

from __future__ import annotations

OK = 0
# Of `verify`, `handover`, `rebuild --repair` and `demo`.
FINDINGS = 1
# Of the commands that look for something: the question was answered, with nothing.
NOTHING = 1
USAGE = 2
FAILED = 3
# Not all was done that was asked for, or no answer could be given; run it again, or see to what it
# names.
INCOMPLETE = 4
