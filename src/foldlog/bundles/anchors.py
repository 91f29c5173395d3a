"""Anchors: what somebody other than the bundle's writer says of its manifest.

A signature is Ed25519 over the bytes of `manifest.json`; a time stamp is a token of RFC 3161 for
their SHA-256. Both can be checked without foldlog, by `openssl`. Needs the extra `foldlog[bundle]`.
"""

from __future__ import annotations

import hashlib
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from foldlog.errors import BundleRefused, ConfigurationError

if TYPE_CHECKING:
    import datetime as dt

SIGNATURE, TIMESTAMP = "anchor/signature", "anchor/timestamp.tsr"
NAMES: Final = (SIGNATURE, TIMESTAMP)

MOST_BYTES: Final = 1024 * 1024
"""What an anchor may take."""

_ED25519: Final = "cryptography.hazmat.primitives.asymmetric.ed25519"
_SERIALIZATION: Final = "cryptography.hazmat.primitives.serialization"
_EXCEPTIONS: Final = "cryptography.exceptions"


class BadAnchor(ValueError):
    """An anchor that does not stand up; the message says why."""


def digest(manifest: bytes) -> str:
    """Return what stands for a manifest: the SHA-256 of its bytes, in hexadecimal."""
    return hashlib.sha256(manifest).hexdigest()


def sign(manifest: bytes, private_key: bytes) -> bytes:
    """Return the signature of a manifest.

    Args:
        private_key: an Ed25519 key as PEM, PKCS #8, without a password.

    Raises:
        BundleRefused: it is no such key. ConfigurationError: `foldlog[bundle]` is not installed.
    """
    serialization, refused = _load(_SERIALIZATION), _load(_EXCEPTIONS).UnsupportedAlgorithm
    try:
        key = serialization.load_pem_private_key(private_key, None)
    except (ValueError, TypeError, refused) as error:
        reason = f"it is no PEM without a password: {error}"
        raise BundleRefused("the private key", reason) from None
    if not isinstance(key, _load(_ED25519).Ed25519PrivateKey):
        raise BundleRefused("the private key", "it is not an Ed25519 key")
    return bytes(key.sign(manifest))


def check_signature(manifest: bytes, signature: bytes, public_key: bytes) -> None:
    """Return if the signature is that key's.

    Raises:
        BadAnchor: it is not. BundleRefused: the key is no Ed25519 public key as PEM.
        ConfigurationError: `foldlog[bundle]` is not installed.
    """
    serialization, exceptions = _load(_SERIALIZATION), _load(_EXCEPTIONS)
    try:
        key = serialization.load_pem_public_key(public_key)
    except (ValueError, TypeError, exceptions.UnsupportedAlgorithm) as error:
        raise BundleRefused("the public key", f"it is no PEM: {error}") from None
    if not isinstance(key, _load(_ED25519).Ed25519PublicKey):
        raise BundleRefused("the public key", "it is not an Ed25519 key")
    try:
        key.verify(signature, manifest)
    except exceptions.InvalidSignature:
        raise BadAnchor("it is not that key's over this manifest") from None


def timestamp_request(manifest: bytes) -> bytes:
    """Return a request for a time stamp on a manifest, to be sent to an authority.

    Raises:
        ConfigurationError: `foldlog[bundle]` is not installed.
    """
    tsp = _load("rfc3161_client")
    builder = tsp.TimestampRequestBuilder().data(manifest)
    request = builder.hash_algorithm(tsp.HashAlgorithm.SHA256).nonce(nonce=False).build()
    return bytes(request.as_bytes())


def check_imprint(manifest: bytes, response: bytes) -> None:
    """Return if an authority's answer is a time stamp on that manifest, by any authority.

    Raises:
        BadAnchor: it is not. ConfigurationError: `foldlog[bundle]` is not installed.
    """
    answer = _answer(response)
    if answer.tst_info.message_imprint.message != hashlib.sha256(manifest).digest():
        raise BadAnchor("it is a time stamp on something else")


def check_timestamp(manifest: bytes, response: bytes, authorities: bytes) -> dt.datetime:
    """Return the time at which an authority says that the manifest existed.

    Args:
        authorities: certificates as PEM, of the authorities that are trusted.

    Raises:
        BadAnchor: the imprint, the signature or the chain of certificates does not stand up.
        BundleRefused: `authorities` holds no certificate. ConfigurationError: as above.
    """
    tsp = _load("rfc3161_client")
    try:
        roots = _load("cryptography.x509").load_pem_x509_certificates(authorities)
    except ValueError as error:
        raise BundleRefused("the authorities' certificates", str(error)) from None
    check_imprint(manifest, response)
    answer = _answer(response)
    try:
        tsp.VerifierBuilder(roots=roots).build().verify_message(answer, manifest)
    except (tsp.VerificationError, ValueError) as error:
        raise BadAnchor(str(error)) from None
    found: dt.datetime = answer.tst_info.gen_time
    return found


def _answer(response: bytes) -> Any:
    tsp = _load("rfc3161_client")
    try:
        answer = tsp.decode_timestamp_response(response)
        if answer.status not in (0, 1):
            raise BadAnchor(f"the authority granted none: {' '.join(answer.status_string)}")
        answer.tst_info  # noqa: B018 - read for what it raises where it is malformed
    except BadAnchor:
        raise
    except ValueError as error:
        raise BadAnchor(f"it is no answer of RFC 3161: {error}") from None
    return answer


def _load(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        words = f"{error.name} is not installed: pip install 'foldlog[bundle]'"
        raise ConfigurationError(f"signatures and time stamps need more: {words}") from error
