"""Turn JVM methods into Scala functions, so that one call from Python asks a whole question.

py4j calls one method of one object at a time, and a plan has hundreds of expressions. A function
made here maps a whole collection in the JVM; a chain of steps returns only the last result.
"""

from functools import lru_cache

from delta_pipelines.delta.jvm.bridge import JavaObject, Packages

_FUNCTION = "scala.Function1"
_SEQ = "scala.collection.immutable.Seq"
_CLASS = "java.lang.Class"
_OBJECT = "java.lang.Object"
_TEXT = "java.lang.String"


def method(view: JavaObject, owner: str, name: str, *given: tuple[str, object]) -> JavaObject:
    """Return a public method as a step of a `chain`: a method handle from object to object.

    Args:
        view: py4j's view of a JVM (`SparkContext._jvm`).
        owner: Full name of the class.
        given: The method's arguments, each after the full name of the parameter's class.
    """
    kinds = _array(view, _CLASS, [class_of(view, kind) for kind, _ in given])
    handle = _lookup(view).unreflect(class_of(view, owner).getMethod(name, kinds))
    if given:
        handle = _with_arguments(view, handle, *(value for _, value in given))
    thing = class_of(view, _OBJECT)
    return handle.asType(_invoke(view).MethodType.methodType(thing, thing))


def chain(view: JavaObject, *steps: JavaObject) -> JavaObject:
    """Return a Scala function that calls methods one after the other, each on the last result.

    Args:
        view: py4j's view of a JVM (`SparkContext._jvm`).
        steps: From `method`, `mapped`, `kept` or `joined`; at least one.

    Example:
        >>> size = chain(spark._jvm, joined(spark._jvm, "+"), method(spark._jvm, text, "length"))
        >>> size.apply(scala_sequence(spark._jvm, [1, 2]))
        3
    """
    handle, *rest = steps
    for step in rest:
        handle = _invoke(view).MethodHandles.filterReturnValue(handle, step)
    proxies = _invoke(view).MethodHandleProxies
    return proxies.asInterfaceInstance(class_of(view, _FUNCTION), handle)


def mapped(view: JavaObject, function: JavaObject) -> JavaObject:
    """Return a step that applies a function to each element of a Scala `Seq`."""
    return method(view, _SEQ, "map", (_FUNCTION, function))


def kept(view: JavaObject, function: JavaObject) -> JavaObject:
    """Return a step that keeps those elements of a Scala `Seq` for which a function is true."""
    return method(view, _SEQ, "filter", (_FUNCTION, function))


def joined(view: JavaObject, between: str) -> JavaObject:
    """Return a step that writes the elements of a Scala `Seq` as one text."""
    return method(view, _SEQ, "mkString", (_TEXT, between))


@lru_cache(maxsize=64)
def is_instance_of(view: JavaObject, name: str) -> JavaObject:
    """Return a function that says whether an object is an instance of the class `name`."""
    boolean = Packages(view).java.lang.Boolean.TYPE
    kind = _invoke(view).MethodType.methodType(boolean, class_of(view, _OBJECT))
    asked = _lookup(view).findVirtual(class_of(view, _CLASS), "isInstance", kind)
    return chain(view, asked.bindTo(class_of(view, name)))


@lru_cache(maxsize=1)
def all_nodes(view: JavaObject) -> JavaObject:
    """Return a function that lists the nodes of a Spark tree, from the top."""
    itself = Packages(view).type("scala.$less$colon$less$")
    same = getattr(itself, "MODULE$").refl()
    tree = "org.apache.spark.sql.catalyst.trees.TreeNode"
    return chain(view, method(view, tree, "map", (_FUNCTION, same)))


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
    added = _invoke(view).MethodType.methodType(primitive, primitive)
    atomic = class_of(view, f"java.util.concurrent.atomic.Atomic{kind}")
    add = _with_arguments(view, _lookup(view).findVirtual(atomic, "addAndGet", added), number)
    both = _invoke(view).MethodHandles.filterReturnValue(_lookup(view).unreflectGetter(field), add)
    callable_ = class_of(view, "java.util.concurrent.Callable")
    _invoke(view).MethodHandleProxies.asInterfaceInstance(callable_, both).call()


@lru_cache(maxsize=64)
def class_of(view: JavaObject, name: str) -> JavaObject:
    """Return a class of the JVM as an object (`java.lang.Class`); looked up once."""
    lang = Packages(view).java.lang
    return lang.Class.forName(name, True, lang.Thread.currentThread().getContextClassLoader())


def _with_arguments(view: JavaObject, handle: JavaObject, *values: object) -> JavaObject:
    given = _array(view, _OBJECT, list(values))
    return _invoke(view).MethodHandles.insertArguments(handle, 1, given)


def _array(view: JavaObject, kind: str, values: list[object]) -> JavaObject:
    made = Packages(view).java.lang.reflect.Array.newInstance(class_of(view, kind), len(values))
    for index, value in enumerate(values):
        made[index] = value
    return made


def _invoke(view: JavaObject) -> JavaObject:
    return Packages(view).java.lang.invoke


def _lookup(view: JavaObject) -> JavaObject:
    return _invoke(view).MethodHandles.publicLookup()
