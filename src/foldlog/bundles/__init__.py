"""Bundles: all that the log holds of a session in one file that proves itself.

The guide is `docs/guides/bundles.md`. A bundle holds an export (`foldlog.exporting`), which
`exporting.restore` brings back.

exported = await write_bundle(store, "trip", "trip.bundle.zip", private_key=key)
report = verify_bundle("trip.bundle.zip", public_key=public)               # without the log
report = await verify_bundle_with_log(store, "trip.bundle.zip")
"""

from foldlog.bundles.verifying import (
    BundleFinding,
    BundleReport,
    verify_bundle,
    verify_bundle_with_log,
)
from foldlog.bundles.writing import write_bundle

__all__ = [
    "BundleFinding",
    "BundleReport",
    "verify_bundle",
    "verify_bundle_with_log",
    "write_bundle",
]
