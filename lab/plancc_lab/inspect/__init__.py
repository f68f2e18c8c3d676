"""What no plan of a matrix can undercut, beside the figures of a plan."""
