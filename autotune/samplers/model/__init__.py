"""Models behind samplers: features, posteriors, acquisition, candidates."""
