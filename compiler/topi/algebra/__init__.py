"""Products and properties of matrices of any rank."""
