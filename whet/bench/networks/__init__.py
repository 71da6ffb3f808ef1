"""Networks in PyTorch with random weights, written out in ``torch.nn`` alone.

Each comes in its published size, and smaller where a test asks for it.
"""

from __future__ import annotations

from whet.bench.networks.build import NETWORKS, Network, exported_to_onnx, network

__all__ = ["NETWORKS", "Network", "exported_to_onnx", "network"]
