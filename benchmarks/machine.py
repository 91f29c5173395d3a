"""What a run ran on: without it no figure means anything."""

from __future__ import annotations

import os
import platform
import statistics
import time
from importlib import metadata
from pathlib import Path

_PACKAGES = (
    "foldlog",
    "nats-py",
    "msgspec",
    "pydantic",
    "asyncpg",
    "redis",
    "penguiflow",
    "dbos",
    "a2a-sdk",
    "agent-framework-core",
    "claude-agent-sdk",
    "google-adk",
    "openai-agents",
    "pydantic-ai-slim",
)
_WRITES = 200


def machine(directory: Path) -> dict[str, str]:
    """The processor, its memory, the system, and the disk under `directory`. No names, no paths."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "file system": _file_system(directory),
        "one 4 KiB write with fdatasync": f"{_fsync(directory) * 1e6:,.0f} µs",
    }


def versions() -> dict[str, str]:
    """Python and the packages that take part; the servers speak for themselves."""
    found = {"Python": f"{platform.python_implementation()} {platform.python_version()}"}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def _memory() -> str:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return "unknown"
    return f"{size / 2**30:.0f} GiB"


def _file_system(directory: Path) -> str:
    """The type of the file system that holds `directory`: of its mount points the longest."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
    except OSError:
        return "unknown"
    path = directory.resolve()
    over = [(len(at), kind) for _, at, kind, *_ in mounts if path.is_relative_to(at)]
    return max(over, default=(0, "unknown"))[1]


def _fsync(directory: Path) -> float:
    """The median seconds of an appended 4 KiB that is on the disk when the call returns."""
    synced = getattr(os, "fdatasync", os.fsync)
    took = []
    with (directory / "probe").open("wb", buffering=0) as file:
        for _ in range(_WRITES):
            began = time.perf_counter()
            file.write(bytes(4096))
            synced(file.fileno())
            took.append(time.perf_counter() - began)
    return statistics.median(took)
