"""A hash of a pickle that is the same in every process; nothing in the pickle is imported or run.

Equal values can have different pickles in two processes: a set has another order, a repeated text
is written once or twice, and a class gets a random name. So the pickle's instructions are parsed
into a tree of plain values, and the tree is hashed.
"""

import hashlib
import pickletools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"})
_IGNORED = frozenset({"PROTO", "FRAME", "STOP"})
_CHANGES = frozenset({"APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD"})
"""Instructions that change the value below their arguments."""
_SETS = frozenset({"EMPTY_SET", "FROZENSET"})
_RANDOM_NAME = re.compile(r"[0-9a-f]{32}")
"""The name that cloudpickle gives to a class that it pickles by value (`uuid4().hex`)."""
_NAMED_AT_RANDOM = frozenset({"_make_skeleton_class", "_make_skeleton_enum", "_make_typevar"})


def pickle_digest(pickled: bytes) -> str:
    """Hash the content of a pickle.

    Args:
        pickled: A pickle of any protocol. If it cannot be parsed, its bytes are hashed.

    Returns:
        64 hexadecimal digits.

    Example:
        >>> import pickle
        >>> one, other = pickle.dumps({"a", "b"}, 4), pickle.dumps({"b", "a"}, 5)
        >>> pickle_digest(one) == pickle_digest(other)
        True
        >>> pickle_digest(one) == pickle_digest(pickle.dumps(["a", "b"]))
        False
    """
    try:
        return _Hashing().digest(_tree(pickled))
    except (ValueError, IndexError, KeyError, RecursionError):
        return hashlib.sha256(pickled).hexdigest()


@dataclass(eq=False)
class _Node:
    """A value of the pickle: the instruction that creates it, and its parts."""

    made_by: str
    argument: object = None
    parts: list["_Node"] = field(default_factory=list)
    changes: list[tuple[str, list["_Node"]]] = field(default_factory=list)


def _tree(pickled: bytes) -> _Node:
    stack: list[_Node] = []
    group_starts: list[int] = []
    memo: dict[int, _Node] = {}
    whole = _Node("pickle")
    for opcode, argument, _ in pickletools.genops(pickled):
        name = opcode.name
        if name in _PUTS:
            memo[len(memo) if name == "MEMOIZE" else int(argument or 0)] = stack[-1]
        elif name in _GETS:
            stack.append(memo[int(argument or 0)])
        elif name == "MARK":
            group_starts.append(len(stack))
        elif name == "DUP":
            stack.append(stack[-1])
        elif name == "POP" and group_starts and group_starts[-1] == len(stack):
            group_starts.pop()
        elif name not in _IGNORED:
            taken = _taken(opcode, stack, group_starts)
            if name in _CHANGES:
                if pickletools.markobject not in opcode.stack_before:
                    stack.append(taken.pop(0))
                stack[-1].changes.append((name, taken))
            elif opcode.stack_after:
                stack.append(_Node(name, argument, taken))
            else:
                for dropped in taken:
                    _called_for_effect(dropped, whole).changes.append((name, [dropped]))
    whole.parts.append(stack[-1])
    return whole


def _called_for_effect(dropped: _Node, whole: _Node) -> _Node:
    """The value that a call with an unused result changes, such as a function's globals."""
    if dropped.made_by == "REDUCE" and dropped.parts[1].parts:
        return dropped.parts[1].parts[0]
    return whole


def _taken(
    opcode: pickletools.OpcodeInfo, stack: list[_Node], group_starts: list[int]
) -> list[_Node]:
    """The values that an instruction pops: all values above a mark, or a fixed number."""
    if pickletools.markobject in opcode.stack_before:
        at = group_starts.pop()
    else:
        at = len(stack) - len(opcode.stack_before)
    if at < 0:
        raise IndexError
    taken = stack[at:]
    del stack[at:]
    return taken


class _Hashing:
    """Hash every node once: a pickle can contain a value once and use it many times."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}
        self._open: dict[int, int] = {}

    def digest(self, node: _Node) -> str:
        key = id(node)
        if key in self._known:
            return self._known[key]
        if key in self._open:
            # A recursive value, such as a function that refers to itself.
            return f"the value {len(self._open) - self._open[key]} levels above"
        self._open[key] = len(self._open)
        texts = [node.made_by, repr(node.argument), *self._digests(node)]
        del self._open[key]
        self._known[key] = hashlib.sha256("\n".join(texts).encode()).hexdigest()
        return self._known[key]

    def _digests(self, node: _Node) -> Iterable[str]:
        if node.made_by in _SETS:
            added = [item for name, items in node.changes if name == "ADDITEMS" for item in items]
            return sorted(map(self.digest, [*node.parts, *added]))
        texts = list(map(self.digest, _without_random_name(node)))
        for name, items in node.changes:
            texts += [name, *map(self.digest, items)]
        return texts


def _without_random_name(node: _Node) -> list[_Node]:
    if node.made_by != "REDUCE" or not node.parts[0].parts:
        return node.parts
    made, given = node.parts
    if made.made_by != "STACK_GLOBAL" or made.parts[1].argument not in _NAMED_AT_RANDOM:
        return node.parts
    return [
        made,
        *(part for part in given.parts if not _RANDOM_NAME.fullmatch(str(part.argument))),
    ]
