"""What the process has imported from which others are forked."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("error")
    import foldlog

    foldlog.connect  # noqa: B018 - it is imported when it is first asked for
