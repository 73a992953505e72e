"""Running tasks in other processes: of this machine, or on a Ray cluster."""
