"""Columns that the own executors add to rows of the target or of the source.

A merge whose tables have one of them already is left to Delta: where two columns of a join have one
name, Spark would refuse it, or a clause would read the wrong one. So all names are made here.
"""

FILE, ROW = "__dp_file", "__dp_row"
"""Of a located row of the target: the file's path as Spark writes it, and the row's place in it."""
AT_FILE, AT_ROW = "__dp_f", "__dp_r"
"""The same, in rows that are joined with located ones."""
SOURCE_ROW = "__dp_source_row"
"""A number in every fixed row of the source, so that rows can be told apart."""
PAIR, DO = "__dp_pair", "__dp_do"
"""Of a match: the number of the source's row, and of the clause that acts."""
KIND = "__dp_kind"
"""Which kind of change a row tells of."""
ANY = "__dp_any"
"""Stands for the keys where ON has no column of the target."""

OWN_COLUMNS = (FILE, ROW, AT_FILE, AT_ROW, SOURCE_ROW, PAIR, DO, KIND, ANY)
