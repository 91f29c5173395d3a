"""What an adapter says where its framework is not installed."""

from __future__ import annotations

from foldlog.errors import ConfigurationError


def not_installed(extra: str, error: ModuleNotFoundError) -> ConfigurationError:
    """Return the error that says which extra to install.

    Args:
        extra: the extra of foldlog that brings the framework.
        error: what importing the framework raised.
    """
    return ConfigurationError(f"{error.name} is not installed: pip install 'foldlog[{extra}]'")
