"""Code generators: from lowered loop IR to machine code, one folder for each kind of target."""
