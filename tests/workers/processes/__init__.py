"""Workers in processes of their own, which are killed and frozen."""
