"""Bundles: all that the log holds of a session in one file that proves itself.

The guide is `docs/guides/bundles.md`.

bundle = await write_bundle(store, "trip", "trip.bundle.zip")
report = verify_bundle("trip.bundle.zip")               # without the log
report = await verify_bundle_with_log(store, "trip.bundle.zip")
"""

from foldlog.bundles.comparing import verify_bundle_with_log
from foldlog.bundles.manifest import BundledArtifact, Manifest
from foldlog.bundles.proofs import RecordProof, check_proof, prove_record
from foldlog.bundles.reading import BundleFinding, BundleReport, verify_bundle
from foldlog.bundles.writing import Bundle, add_timestamp, request_timestamp, write_bundle

__all__ = [
    "Bundle",
    "BundleFinding",
    "BundleReport",
    "BundledArtifact",
    "Manifest",
    "RecordProof",
    "add_timestamp",
    "check_proof",
    "prove_record",
    "request_timestamp",
    "verify_bundle",
    "verify_bundle_with_log",
    "write_bundle",
]
