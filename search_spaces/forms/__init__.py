"""Forms that rules recognise in a stage: contractions, GEMMs, convolutions; their sizes."""
