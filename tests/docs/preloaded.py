"""What the process has imported from which the programs of the pages are forked."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("error")
    import foldlog

    foldlog.connect  # noqa: B018 - it is imported when it is first asked for
