"""One file a paper: what it prints, and what comes out."""
