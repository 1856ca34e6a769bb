"""The tree stays small: each package has a budget of lines, and so have pages of words.

A budget may be raised only in the commit that needs it, which says why. Who makes something smaller lowers it.
"""

from collections import Counter

from tests.docs.tree import package_of, text_files

PRODUCT = (".py", ".js", ".css", ".j2", ".html", ".go", ".java")

LINES = {
    "benchmarks": 3_023,
    "docs": 3,
    "docsite": 317,
    "follower": 663,
    "leader": 1_767,
    "pyspark_replog": 5,
    "pyspark_replog_batches": 5,
    "pyspark_replog_epochs": 5,
    "pyspark_replog_replicas": 5,
    "replog": 249,
    "replog/chaos": 1_765,
    "replog/cli": 3_716,
    "replog/client": 4_942,
    "replog/command": 515,
    "replog/common": 411,
    "replog/config": 778,
    "replog/console": 1_443,
    "replog/controller": 2_539,
    "replog/demo": 531,
    "replog/kafka": 1_028,
    "replog/local_cluster": 1_297,
    "replog/log": 8_010,
    "replog/log_tools": 2_165,
    "replog/metadata": 933,
    "replog/purgatory": 136,
    "replog/rpc": 6_660,
    "replog/server": 12_700,
    "replog/simulator": 9_278,
    "spark_jobs": 1_167,
    "spark_jobs/audit": 3_530,
    "spark_jobs/records": 1_804,
    "spark_jobs/replicas": 2_779,
}
FILES = 536
TESTS = 76_551
RESULTS = 134
PAGES, WORDS = 25, 45_750


def table(sizes: Counter[str], budgets: dict[str, int]) -> str:
    """Shows each package, its size and its budget, those that are over first."""
    rows = [(size - budgets.get(name, 0), name, size, budgets.get(name, 0)) for name, size in sizes.items()]
    return "\n".join(
        f"{name:24} {size:7,} of {budget:7,} {over:+6,}" for over, name, size, budget in sorted(rows)[::-1]
    )


def lines(text: str) -> int:
    return text.count("\n")


def is_product(path: str) -> bool:
    return path.endswith(PRODUCT) and not path.startswith("tests/")


def test_each_package_is_within_its_budget_of_lines():
    sizes = Counter[str]()
    for path, text in text_files(*PRODUCT):
        if is_product(path):
            sizes[package_of(path)] += lines(text)
    over = [name for name, size in sizes.items() if size > LINES.get(name, 0)]
    assert not over, f"{sum(sizes.values()):,} lines of the product:\n{table(sizes, LINES)}"


def test_the_product_has_few_files():
    files = [path for path, _ in text_files(*PRODUCT) if is_product(path)]
    assert len(files) <= FILES, f"{len(files)} of {FILES}"


def test_tests_and_results_are_within_their_budgets():
    tests = sum(lines(text) for path, text in text_files(*PRODUCT) if path.startswith("tests/"))
    results = sum(lines(text) for path, text in text_files() if path.startswith("benchmarks/results/"))
    assert (tests <= TESTS, results <= RESULTS) == (True, True), (
        f"tests {tests:,} of {TESTS:,}, results {results:,} of {RESULTS:,}"
    )


def test_pages_are_few_and_short():
    words = Counter({path: len(text.split()) for path, text in text_files(".md")})
    pages = "\n".join(f"{count:6,} {path}" for path, count in words.most_common())
    assert len(words) <= PAGES, f"{len(words)} pages of {PAGES}:\n{pages}"
    assert words.total() <= WORDS, f"{words.total():,} words of {WORDS:,}:\n{pages}"
