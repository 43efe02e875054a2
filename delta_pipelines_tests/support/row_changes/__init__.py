"""Ways in which a dataset's rows change although the text of its declaration does not."""
