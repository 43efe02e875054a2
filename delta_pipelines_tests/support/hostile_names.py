"""Names that break home-made quoting, folders and logs; each stands for a class of them."""

STORABLE = [
    "a`; DROP TABLE canary; --",
    "`",
    "``",
    "it's",
    "'; DROP TABLE canary; --",
    'say "so"',
    "back\\slash",
    "\\'; --",
    "a.b",
    ".",
    "a.b.c.d",
    "line\nbreak",
    "tab\tstop",
    "carriage\rreturn",
    " leads",
    "trails ",
    " ",
    "t\u0430ble",
    "\uff54able",
    "\u212aelvin",
    "stra\u00dfe",
    "x" * 256,
    "select",
    "TABLE",
    "element",
    "../../outside",
    "..",
    "%2e%2e%2f",
    "%",
    "*",
    "a;b",
    "a,b",
    "{x}",
    "(x)",
    "a=b",
    "$1",
    "${spark.app.name}",
    "\U0001f6eb",
    "\u202eevil",
    "\u200b",
    "ca\u0301fe",
    "/* x */",
    "-- x",
    "1",
    "_",
    "__START_AT",
    "NULL",
    "[b]",
    "|",
]
"""What a column, a comment or a property's value may be."""
IMPOSSIBLE = ["nul\0", "\0", "\ud800", "half\udfffpair"]
"""What no catalog, file or event log can keep."""
NAMES = [*STORABLE, *IMPOSSIBLE, "", "__dp_input_0", "spark"]


def printable(name):
    """For the message of a failing case."""
    return ascii(name)[:40]
