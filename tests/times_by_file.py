"""Seconds of each test file, longest first, from the JUnit file of a run: `make test-times`.

Times are those of the worker that ran the file, so that with two workers they add up to twice the wall-clock time. What
a test waits for in other processes is part of its time; what `compile_first.py` compiles before all tests is not.
"""

import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict


def main(path: str) -> None:
    seconds: dict[str, float] = defaultdict(float)
    longest: dict[str, tuple[float, str]] = {}
    for case in ElementTree.parse(path).iter("testcase"):
        file, took = case.get("classname") or case.get("name", ""), float(case.get("time", 0.0))
        seconds[file] += took
        longest[file] = max(longest.get(file, (0.0, "")), (took, case.get("name", "")))
    for file, total in sorted(seconds.items(), key=lambda item: -item[1]):
        took, name = longest[file]
        print(f"{total:7.1f} s  {file:<45} longest {took:5.1f} s  {name[:60]}")
    print(f"{sum(seconds.values()):7.1f} s  in {len(seconds)} files")


if __name__ == "__main__":
    main(sys.argv[1])
