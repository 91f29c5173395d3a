/* Search from files on a disk: see below. */
