"""Read the sections `Example:` of our docstrings as code, as `Examples:` is read."""

import re

import griffe


class ExampleSections(griffe.Extension):
    """An extension of griffe, by which mkdocstrings reads docstrings."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        """Rename the section, before the docstring is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)
