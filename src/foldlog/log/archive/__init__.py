"""The archive: what is old stands in Parquet files, sorted by subject, and no longer in the log.

Closed ranges of a shard become *segments*, in a directory or a bucket. Steps have one order:
the file is written and synced; the shard's *manifest*, a record of the log, names it; the log is
purged. So whatever the log no longer has, the manifest named before.
"""

from foldlog.log.archive.archived import ArchivedLog
from foldlog.log.archive.archiver import Archived, ArchiveLimits, Archiver, Archiving
from foldlog.log.archive.manifests import ArchiveHealth
from foldlog.log.archive.places import place_of
from foldlog.log.archive.segments import Segments

__all__ = [
    "ArchiveHealth",
    "ArchiveLimits",
    "Archived",
    "ArchivedLog",
    "Archiver",
    "Archiving",
    "Segments",
    "place_of",
]
