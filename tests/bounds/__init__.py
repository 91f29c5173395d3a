"""What a peer sends, asks or fails to read costs bounded memory, and delays nobody else."""
