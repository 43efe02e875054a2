"""Names of the columns that our executors add to rows of the target or of the source.

If a merge's tables already have such a column, Delta's own MERGE runs: with two columns of one name
in a join, Spark would fail, or a clause would read the wrong column. So all names are defined here.
"""

FILE, ROW = "__dp_file", "__dp_row"
"""Location of a target row: the file's path as Spark writes it, and the row's position in it."""
AT_FILE, AT_ROW = "__dp_f", "__dp_r"
"""The same location, in rows that are joined with target rows."""
SOURCE_ROW = "__dp_source_row"
"""A unique number in every materialized row of the source."""
PAIR, DO = "__dp_pair", "__dp_do"
"""Of a match: the number of the source row, and of the clause that acts."""
KIND = "__dp_kind"
"""The kind of change that a row describes."""
ANY = "__dp_any"
"""Replaces the keys if ON reads no column of the target."""

OWN_COLUMNS = (FILE, ROW, AT_FILE, AT_ROW, SOURCE_ROW, PAIR, DO, KIND, ANY)
