"""An operator on a GPU beside its peers and the device's limits, timed on the device's clock."""
