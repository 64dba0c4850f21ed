"""The rules of this house that no ready-made linter knows.  ``python -m tools.lint`` checks the whole tree.

Every rule is a function from a parsed file to findings, has a name, and has tests in ``tests/unit/lint``.  There is no
way to switch a rule off for a line: either the rule is wrong and is changed here, or the line is.
"""
