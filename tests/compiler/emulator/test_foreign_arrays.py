"""Others' arrays and streams, as they describe themselves, without a GPU."""

from types import SimpleNamespace

import pytest

from whet.compiler.runtime.arrays import foreign
from whet.compiler.runtime.gpu.driver.streams import handle_of, number_of_device


def test_a_tensor_of_pytorch_tells_all_that_a_kernel_checks():
    torch = pytest.importorskip("torch")
    base = torch.arange(64, dtype=torch.float32)
    assert base.data_ptr() % 16 == 0 and hasattr(base, "is_cuda")
    told, address, where = foreign._of_torch(base)
    assert (address, where) == (base.data_ptr(), base.device)
    assert foreign._of_torch(torch.empty(64))[0] == told  # another of the same layout
    assert foreign._of_torch(base[:32])[0] == foreign._of_torch(base[4:36])[0]
    others = [
        base[:32],
        base[::2],
        base[1:33],  # its address alone differs from the one before
        base.reshape(8, 8),
        base.reshape(8, 8).t()[:4],
        base.to(torch.float64),
        base.to(torch.bfloat16),
        torch.empty(64, device="meta"),
        base.clone().requires_grad_(),
    ]
    seen = {told} | {foreign._of_torch(tensor)[0] for tensor in others}
    assert len(seen) == 1 + len(others)


@pytest.mark.parametrize(
    "stream, handle, number",
    [
        (SimpleNamespace(cuda_stream=0, device_index=1), 1, 1),
        (SimpleNamespace(cuda_stream=77, device_index=0), 77, 0),
        (SimpleNamespace(ptr=88, device_id=-1), 88, None),
        (SimpleNamespace(handle=99), 99, None),
        (SimpleNamespace(__cuda_stream__=(0, 66)), 66, None),
        (2, 2, None),
        (0, 1, None),
        (False, None, None),
        ("77", None, None),
        (SimpleNamespace(cuda_stream=None), None, None),
        (None, None, None),
    ],
)
def test_the_handle_of_somebody_elses_stream(stream, handle, number):
    assert handle_of(stream) == handle and number_of_device(stream) == number
