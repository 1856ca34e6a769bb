"""An invariant that does not hold."""


class Violation(AssertionError):
    """`invariant` names the rule (INV-5); the text has what is needed to understand it without a rerun."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
