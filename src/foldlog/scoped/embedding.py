"""An embedder that works offline: the extra `foldlog[semantic]`.

WordLlama averages vectors of tokens that come in its own package, 16 MB of them: no network, no
PyTorch, some 0.1 ms a text. It knows which words are near one another, and nothing of their order.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from foldlog.errors import ConfigurationError


class OfflineEmbedder:
    """Texts to vectors of 256 numbers. Loads its model, a second's work, when first called.

    Raises:
        ConfigurationError: the package is missing.
    """

    name = "wordllama-l2-256"

    def __init__(self) -> None:
        try:
            import wordllama
        except ImportError:
            raise ConfigurationError(
                "this embedder needs wordllama: pip install 'foldlog[semantic]'"
            ) from None
        self._package = wordllama

    def __call__(self, texts: list[str]) -> Any:
        """The texts' vectors, as a numpy array of a row for each."""
        return self._model.embed(texts, norm=True)

    @functools.cached_property
    def _model(self) -> Any:
        # Its package holds the files where it looks for those that it has downloaded before.
        home = Path(self._package.__file__ or "").parent
        return self._package.WordLlama.load(cache_dir=home, disable_download=True)
