"""Where the mail corpus lies: real and torture mail that the project reads in place and does not contain."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

_DEFAULT = Path(__file__).parent.parent.parent / "shared" / "corpus"


def corpus_root() -> Path | None:
    """The corpus folder ($POSTMIRROR_CORPUS, else ../shared/corpus beside the project); None when there is none."""
    root = Path(os.environ.get("POSTMIRROR_CORPUS", _DEFAULT))
    return root if root.is_dir() else None


def messages() -> Iterator[Path]:
    """Every message of the corpus, in a fixed order."""
    root = corpus_root()
    if root is None:
        return
    for folder in sorted(root.iterdir()):
        if folder.is_dir() and not folder.name.startswith("_"):
            yield from sorted(path for path in folder.iterdir() if path.is_file())


needs_corpus = pytest.mark.skipif(
    corpus_root() is None, reason="the mail corpus is not here: set POSTMIRROR_CORPUS or put it at ../shared/corpus"
)
