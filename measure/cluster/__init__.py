"""The machines of a Ray cluster: their announced devices, their check, joining and leaving."""
