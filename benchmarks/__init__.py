"""foldlog beside its peers and beside the limits of its log, in ratios within one run.

`python -m benchmarks` runs it all, `make bench` installs the peers first. A contender
(`contenders/`) is one way to keep an agent's state; a scenario (`scenarios/`) is one question asked
of several of them, in rounds that take turns. Nothing here asserts a time.
"""
