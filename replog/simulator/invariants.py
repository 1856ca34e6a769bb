"""The violation of an invariant."""


class Violation(AssertionError):
    """`invariant` names the rule, which docs/rules.md (INV-5) or docs/simulator.md (`live`) explains, or
    it is `defect`. The text has what is needed to understand it without a rerun."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
