"""Wrap JVM methods as Scala functions, so that one call from Python maps a whole collection.

py4j calls one method of one object at a time, and a plan has hundreds of expressions.
"""

from functools import lru_cache

from delta_pipelines.delta.jvm.bridge import JavaObject, Packages

_FUNCTION = "scala.Function1"
_CLASS = "java.lang.Class"


@lru_cache(maxsize=64)
def method_of(view: JavaObject, owner: str, name: str, returns: str) -> JavaObject:
    """Return a public method without parameters as a function of its object.

    Args:
        view: py4j's view of a JVM (`SparkContext._jvm`).
        owner: Full name of the class.
        name: Name of the method.
        returns: Full name of the class that the method returns.

    Example:
        >>> length = method_of(spark._jvm, "java.lang.Object", "toString", "java.lang.String")
        >>> scala_sequence(spark._jvm, [1, 2]).map(length).mkString("+")
        '1+2'
    """
    kind = _invoke(view).MethodType.methodType(class_of(view, returns))
    return _function(view, _lookup(view).findVirtual(class_of(view, owner), name, kind))


@lru_cache(maxsize=64)
def is_instance_of(view: JavaObject, name: str) -> JavaObject:
    """Return a function that says whether an object is an instance of the class `name`."""
    boolean = Packages(view).java.lang.Boolean.TYPE
    kind = _invoke(view).MethodType.methodType(boolean, class_of(view, "java.lang.Object"))
    asked = _lookup(view).findVirtual(class_of(view, _CLASS), "isInstance", kind)
    return _function(view, asked.bindTo(class_of(view, name)))


@lru_cache(maxsize=1)
def all_nodes(view: JavaObject) -> JavaObject:
    """Return a function that lists the nodes of a Spark tree, from the top."""
    tree, listed = "org.apache.spark.sql.catalyst.trees.TreeNode", "scala.collection.immutable.Seq"
    kind = _invoke(view).MethodType.methodType(class_of(view, listed), class_of(view, _FUNCTION))
    mapped = _lookup(view).findVirtual(class_of(view, tree), "map", kind)
    itself = Packages(view).type("scala.$less$colon$less$")
    same = getattr(itself, "MODULE$").refl()
    return _function(view, _with_argument(view, mapped, same))


def added_to_counter(view: JavaObject, field: JavaObject, kind: str, number: int) -> None:
    """Add to an atomic number in a static field.

    py4j returns the value of such a field instead of the object, so the JVM must do both steps.

    Args:
        view: py4j's view of a JVM.
        field: From `Jvm.private_field`.
        kind: `Long` or `Integer`.
        number: The amount to add.
    """
    primitive = getattr(Packages(view).java.lang, kind).TYPE
    method = _invoke(view).MethodType.methodType(primitive, primitive)
    atomic = class_of(view, f"java.util.concurrent.atomic.Atomic{kind}")
    add = _with_argument(view, _lookup(view).findVirtual(atomic, "addAndGet", method), number)
    both = _invoke(view).MethodHandles.filterReturnValue(_lookup(view).unreflectGetter(field), add)
    callable_ = class_of(view, "java.util.concurrent.Callable")
    _invoke(view).MethodHandleProxies.asInterfaceInstance(callable_, both).call()


def class_of(view: JavaObject, name: str) -> JavaObject:
    """Return a class of the JVM as an object (`java.lang.Class`)."""
    lang = Packages(view).java.lang
    return lang.Class.forName(name, True, lang.Thread.currentThread().getContextClassLoader())


def _function(view: JavaObject, handle: JavaObject) -> JavaObject:
    proxies = _invoke(view).MethodHandleProxies
    return proxies.asInterfaceInstance(class_of(view, _FUNCTION), handle)


def _with_argument(view: JavaObject, handle: JavaObject, value: object) -> JavaObject:
    lang = Packages(view).java.lang
    given = lang.reflect.Array.newInstance(class_of(view, "java.lang.Object"), 1)
    given[0] = value
    return _invoke(view).MethodHandles.insertArguments(handle, 1, given)


def _invoke(view: JavaObject) -> JavaObject:
    return Packages(view).java.lang.invoke


def _lookup(view: JavaObject) -> JavaObject:
    return _invoke(view).MethodHandles.publicLookup()
