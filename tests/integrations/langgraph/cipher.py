"""A cipher that hides nothing for long, for LangGraph's encrypting serialiser."""

from __future__ import annotations


class Cipher:
    """Turns bytes around."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Return the cipher's name, and the bytes turned around."""
        return "reversed", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Turn them back."""
        return ciphertext[::-1]
