"""Find credentials that need more than a regular expression: lists and PEM blocks. Pure.

Each function reads a text once, from left to right: an error may quote megabytes.
"""

import re

_MARKER = re.compile(r"-{4,5} ?(BEGIN|END) [A-Z\d ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_BODY = re.compile(r"(?:[A-Z][A-Za-z-]{2,30}: [^\n\\]{0,200}|[A-Za-z\d+/=\s\\])*")
"""Content of a block: lines like `Proc-Type: 4,ENCRYPTED`, base64, newlines, also as `\\n`."""
_LINES = re.compile(r"(?:\\r)?\\n|\r?\n")
_LINE = re.compile(r"[A-Za-z\d+/=]+")
_TOKEN = re.compile(
    r"(?<![\w\\])[bru]{0,2}(?:'(?:\\.|[^'\\\n])*'?|\"(?:\\.|[^\"\\\n])*\"?)|[\[\]()]", re.I
)
_QUOTE = re.compile(r"[\s\[(]{0,99}[bru]{0,2}\\{0,3}['\"]", re.I)
_COUNTS = re.compile(r"[\s\d,]{0,200}")
_LONG = re.compile(r"\d{6}")
MOST_BARE = 2_000
"""Maximum length of a list of unquoted items, in characters; longer text may be prose."""
_CLOSING = {"[": "]", "(": ")"}


def without_private_keys(text: str, redacted: str) -> str:
    r"""Replace the private keys in a text; the first and last line of a block stay.

    A block may be cut off at either end, as in a log line of limited length.

    Args:
        text: Any text.
        redacted: The replacement.

    Example:
        >>> without_private_keys("-----BEGIN PRIVATE KEY-----\nMIIE\n", "***")
        '-----BEGIN PRIVATE KEY-----***'
    """
    if "PRIVATE KEY" not in text:
        return text
    kept, at, is_open = [], 0, False
    for marker in _MARKER.finditer(text):
        before, is_begin = text[at : marker.start()], marker[1] == "BEGIN"
        if is_open:
            before = redacted if not is_begin else _without_body(before, redacted)
        elif not is_begin:
            before = _without_last_lines(before, redacted)
        kept += [before, marker[0]]
        at, is_open = marker.end(), is_begin
    last = text[at:]
    return "".join([*kept, _without_body(last, redacted) if is_open else last])


def _without_body(text: str, redacted: str) -> str:
    """Replace the beginning of a text, which is part of a block without its last line."""
    body = _BODY.match(text)
    rest = text[body.end() :] if body else text
    return rest if rest.startswith(redacted) else f"{redacted}{rest}"


def _without_last_lines(text: str, redacted: str) -> str:
    """Replace the base64 lines at the end of a text: a block without its first line."""
    whole = begin = len(text.rstrip("\\rn\r\n\t "))
    breaks = [found.span() for found in _LINES.finditer(text, 0, whole)]
    starts, stops = [0, *(stop for _, stop in breaks)], [*(start for start, _ in breaks), whole]
    for start, end in zip(reversed(starts), reversed(stops), strict=True):
        if not _LINE.fullmatch(text[start:end].strip()):
            break
        begin = start
    return text if begin == whole else f"{text[:begin]}{redacted}"


def without_lists(text: str, opened: re.Pattern[str], redacted: str, *, only_literals: bool) -> str:
    r"""Replace the items of lists that follow a credential's name.

    Lists of small numbers are counts, and stay. A list without a closing bracket ends with its
    line or, if its items are quoted, with the text.

    Args:
        text: Any text.
        opened: Matches a name and everything up to its list's opening bracket, inclusive.
        redacted: The replacement for the items.
        only_literals: True to replace only lists that begin with a quoted text.

    Example:
        >>> named = re.compile(r"passwords: [\[(]")
        >>> without_lists("passwords: [a, [b]], n: 1", named, "***", only_literals=False)
        'passwords: [***], n: 1'
    """
    kept, at = [], 0
    for found in opened.finditer(text):
        begin = found.end()
        if begin < at or (only_literals and not _QUOTE.match(text, begin)):
            continue
        end = _end_of_list(text, begin)
        items = text[begin:end]
        if not items.strip() or (_COUNTS.fullmatch(items) and not _LONG.search(items)):
            continue
        kept += [text[at:begin], redacted]
        at = end
    return "".join([*kept, text[at:]])


def _end_of_list(text: str, begin: int) -> int:
    expected = [_CLOSING[text[begin - 1]]]
    is_quoted = _QUOTE.match(text, begin) is not None
    for token in _TOKEN.finditer(text, begin, len(text) if is_quoted else begin + MOST_BARE):
        bracket = token.group()
        if bracket in _CLOSING:
            expected.append(_CLOSING[bracket])
        elif bracket in "])":
            if bracket == expected[-1]:
                expected.pop()
            if not expected:
                return token.start()
    if is_quoted:
        return len(text)
    line = text.find("\n", begin, begin + MOST_BARE)
    end = min(len(text), begin + MOST_BARE) if line < 0 else line
    return end if "," in text[begin:end] else begin
