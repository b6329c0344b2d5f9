"""Small dense problems, as pure functions on arrays."""
