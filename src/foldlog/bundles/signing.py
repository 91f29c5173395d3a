"""Signatures: Ed25519 over the last line of a bundle's export, its manifest.

`openssl` checks one without foldlog. Needs the extra `foldlog[bundle]`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from foldlog.errors import BundleRefused, ConfigurationError

_PRIMITIVES: Final = "cryptography.hazmat.primitives"


def sign(manifest: bytes, private_key: bytes) -> bytes:
    """Return the signature of a manifest.

    Args:
        manifest: the line.
        private_key: an Ed25519 key as PEM, PKCS #8, without a password.

    Raises:
        BundleRefused: it is no such key. ConfigurationError: `foldlog[bundle]` is not installed.
    """
    return bytes(_key("private", private_key, None).sign(manifest))


def is_signed(manifest: bytes, signature: bytes, public_key: bytes) -> bool:
    """Return whether a signature is that key's over that manifest. Errors as `sign`."""
    try:
        _key("public", public_key).verify(signature, manifest)
    except _load("cryptography.exceptions").InvalidSignature:
        return False
    return True


def _key(half: str, pem: bytes, *more: None) -> Any:
    unsupported = _load("cryptography.exceptions").UnsupportedAlgorithm
    try:
        key = getattr(_load(f"{_PRIMITIVES}.serialization"), f"load_pem_{half}_key")(pem, *more)
    except (ValueError, TypeError, unsupported) as error:
        reason = f"it is no PEM without a password: {error}"
        raise BundleRefused(f"the {half} key", reason) from None
    ed25519 = _load(f"{_PRIMITIVES}.asymmetric.ed25519")
    if not isinstance(key, getattr(ed25519, f"Ed25519{half.title()}Key")):
        raise BundleRefused(f"the {half} key", "it is not an Ed25519 key")
    return key


def _load(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        words = f"{error.name} is not installed: pip install 'foldlog[bundle]'"
        raise ConfigurationError(f"signatures need more: {words}") from error
