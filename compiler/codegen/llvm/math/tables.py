"""Piecewise polynomials of tanh and erf, as ``scripts/fit_tables`` prints them.

Each octave of the argument has four pieces. A row is one coefficient of the 32 pieces, or the
middle that a piece's polynomial is around, as the bits of float32 numbers.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

PIECES = 32


@dataclass(frozen=True, slots=True)
class Table:
    """The polynomials of an odd function.

    Attributes:
        lowest: the first piece begins at zero; the second one at ``1.25 * 2**lowest``.
        highest: the function is constant from here on; it is in a piece that has numbers.
        centred: the first row has the middles; polynomials are of the distance from them.
        rows: of :data:`PIECES` numbers: the middles, and coefficients, lowest power first.
    """

    lowest: int
    highest: float
    centred: bool
    rows: tuple[tuple[float, ...], ...]


def _rows(text: str) -> tuple[tuple[float, ...], ...]:
    """Rows of numbers from their bits in hexadecimal."""
    data = bytes.fromhex(text)
    numbers = struct.unpack(f">{len(data) // 4}f", data)
    return tuple(numbers[k : k + PIECES] for k in range(0, len(numbers), PIECES))


TANH = Table(
    -4,
    9.999999046325684,
    True,
    _rows(
        """
    00000000 3db00000 3dd00000 3df00000 3e100000 3e300000 3e500000 3e700000
    3e900000 3eb00000 3ed00000 3ef00000 3f100000 3f300000 3f500000 3f700000
    3f900000 3fb00000 3fd00000 3ff00000 40100000 40300000 40500000 40700000
    40900000 40b00000 40d00000 40f00000 41100000 41300000 41500000 41700000

    00000000 3daf9169 3dcf49ab 3deee849 3e0f0ee8 3e2e4984 3e4d2f8e 3e6bb32e
    3e8c51cd 3ea96163 3ec543f1 3edfd735 3f028438 3f18abf0 3f2bc480 3f3bec1c
    3f4f2e5b 3f613c53 3f6ce37e 3f743c4f 3f7a5feb 3f7dea85 3f7f3b3d 3f7fb78c
    3f7fefd3 3f7ffdd0 3f7fffb4 3f7ffff6 3f7fffff 00000000 00000000 00000000

    3f800000 3f7e1e5f 3f7d609f 3f7c842d 3f7b00e5 3f789580 3f75b8ad 3f726fd9
    3f6cc59b 3f63fb92 3f59ff97 3f4f11d7 3f3d7579 3f24f360 3f0cbfe7 3eec1a69
    3eb0a801 3e6753a2 3e132f1a 3db7e7d3 3d320845 3c84d3d3 3bc477b4 3b10d3d7
    3a015f64 388c196e 3717affd 35a43ade 3382d310 00000000 00000000 00000000

    32dce249 bdae59a1 bdccadb4 bdeb0472 be0c2f75 be297406 be44f8a6 be5ef853
    be81c917 be96e19f bea806c4 beb50319 bec1347e bec4bf42 bebce7df bead4a04
    be8ef8a3 be4b8aad be083658 bdaf6de8 bd2e1a72 bc83beea bbc3f0ba bb10bda2
    ba00e795 b88d813c b712826d b5e73d35 3438f147 00000000 00000000 00000000

    beaaab12 bea4ed51 bea38aed bea15b61 be9d4555 be9769bb be90222a be880c0f
    be748ce2 be4c3c6e be2125cf bdeb8cee bd6048bd 3c6b643a 3d839197 3dc21e96
    3de347c7 3dcbec89 3d99ef2d 3d542e93 3cdde6e8 3c2cca8f 3b81cbb5 3ac074c9
    39ac4b85 383aa8f9 36ca1fdc 355ad65d 332ca190 00000000 00000000 00000000

    38e2e90a 3f22c34e c07338b2 c0a05605 be63c668 3f75fa9a 3e5cd0c4 bf54a86d
    3e2402d2 3e7631f4 3e83b26c 3da0ef83 3e279f86 3df76307 3dc12e05 3cf2ee69
    3b814a78 bca63bc8 bcc5d6c6 bcb12ea5 bc4bb645 bba842cf bafe7a79 ba3c81a0
    b938f132 b7aaac19 b691c151 35d2179f b489022b 00000000 00000000 00000000

    3e073e14 c17eb917 c0741c67 c0154b70 c00b94f5 3f18f82d 3eba2f0c 3f2cb3e5
    3db41188 3d97e52f bd34843c bcaa0058 3d5094b8 bd6eb0f0 bd7a45a7 bd5f0bbf
    bd0398de bc1c9080 3abb09cf 3b9612d4 3b825f64 3afaea65 3a49c80e 39993d18
    388df153 371ae24a 35a78c10 34359a8a 3220c917 00000000 00000000 00000000
    """
    ),
)

TANH_FAST = Table(
    -4,
    9.999999046325684,
    False,
    _rows(
        """
    00000000 b62410e6 b6bc652b b73f93f7 b7e771c9 b89cdd10 b930fbbf b9b054a6
    ba4abbea bb036627 bb8a7740 bbff0907 bc7f5ec0 bd056b21 bd5a7b5e bd966eb3
    bdb69fef bd8610d7 3c8a184e 3e108df2 3eb25a99 3f19a554 3f464dfb 3f614ab0
    3f745592 3f7d4b03 3f7f6bd4 3f7fe22b 3f7ffced 00000000 00000000 00000000

    3f800003 3f800384 3f8006d3 3f800c06 3f801861 3f8035eb 3f8066fe 3f80b211
    3f81597b 3f82dbb9 3f85203e 3f883e53 3f8e194d 3f9891e2 3fa33c62 3fac1c14
    3fb225c8 3fab1f3b 3f9623fc 3f75b369 3f27c068 3eb313ef 3e319cba 3da85db0
    3cdbba85 3baaf851 3a7b8dfe 3931aa37 3777a027 00000000 00000000 00000000

    b87fa37a badb2838 bb33e8a2 bb895e22 bbe97da7 bc52e9fe bcaab24f bd002924
    bd51c84c bdb60937 be0b50ed be4447ea be8ff491 bed35117 bf0638f2 bf1aa16a
    bf26b8b3 bf1be0e8 befffd7b bec187a8 be6a203c bdd6cfa4 bd3a0e4d bc9c4db5
    bbae2e6c ba627f2c b90f0e30 b7b10001 b5d00335 00000000 00000000 00000000

    bea9ea53 bea5ab0a bea3b835 bea1773d be9d9114 be974d46 be9010e5 be87ebbf
    be75491b be4c1fff be2136ad bdeb9cd3 bd67fa08 3c65cc5e 3d82d5e6 3dc17765
    3de1c7a2 3dcb7735 3d9a00b5 3d549f1e 3ce0f421 3c2fb9ef 3b842841 3ac40b21
    39b9a1a8 38493163 36d9dce4 356be167 33692fc7 00000000 00000000 00000000
    """
    ),
)

ERF = Table(
    -6,
    3.9999997615814209,
    True,
    _rows(
        """
    00000000 3cb00000 3cd00000 3cf00000 3d100000 3d300000 3d500000 3d700000
    3d900000 3db00000 3dd00000 3df00000 3e100000 3e300000 3e500000 3e700000
    3e900000 3eb00000 3ed00000 3ef00000 3f100000 3f300000 3f500000 3f700000
    3f900000 3fb00000 3fd00000 3ff00000 40100000 40300000 40500000 40700000

    00000000 3cc6906e 3ceaa706 3d075de5 3d226b70 3d4678fb 3d6a8054 3d87402e
    3da2381f 3dc61b5f 3de9e5fc 3e06c9c8 3e216bfe 3e44a808 3e6783b7 3e84f76b
    3e9e4d54 3ebf0aca 3ede67f6 3efc37d5 3f12dc54 3f2b4922 3f3fdce0 3f50aa8d
    3f636d69 3f72bb46 3f7a7b4a 3f7df30f 3f7fa023 3f7ff968 3f7fffb8 3f7ffffe

    3f906ebb 3f905daa 3f9056e6 3f904f02 3f90410f 3f902a86 3f900f81 3f8ff001
    3f8fb862 3f8f5eab 3f8ef34c 3f8e766e 3f8d9ab9 3f8c3a6f 3f8a9834 3f88b66c
    3f8572a8 3f8055e8 3f74ead4 3f67e20f 3f5283a7 3f340ff9 3f1546e7 3eefe513
    3ea2f4ce 3e2e72cb 3da4cea4 3d09675a 3bea0a1c 3a19b187 37f4daf3 356c9b8d

    b897e3b3 bcbf3455 bce07ee3 bd10f7ce bd1fd2a3 bd470f50 bd6c756d bd87b337
    bda1285e bdc46a94 bde8642e be0589e4 be1f4236 be409151 be617267 be800b23
    be96158a beb07148 bec6fc84 bed957e6 beeccfbc bef79756 bef295b9 bee0e60d
    beb752a7 be6fddbf be05e974 bd80c9bb bc83929f bad30bff b8c8ba69 b62c677f

    beb74216 beab92c0 beb69a60 bf21ebb7 bec376ca bebbf86d bec0d35a bec946e0
    bebe2bf0 bebd596d bebad4fa beb936d6 beb59e02 beafff61 bea96a2e be9febf5
    be95d096 be82befc be5aaef5 be2c5271 bdce1f62 bc51f731 3d7f1869 3df26a7e
    3e26596b 3e21ba66 3deb31af 3d8a1ec9 3cb1facb 3b34bedb 394ce80d 37052bd6

    bfbfdbce c368c548 c3a01716 4414da99 c21cca7d 41549f54 42166b45 41bae34a
    c08521b2 c0b528d3 3f540af5 be7d4357 bddd771e bf6339ed 3f833cf5 bf55c596
    3d4c2794 3df7db91 3e1ed055 3daa618f 3e31fb33 3e2c2a21 3e0cb9be 3db7681a
    3ce42475 bcf73738 bd492d05 bd30651f bc9ee31c bb5e624e b997f50f b7e0e436

    421b08d3 c5dd758b c54d2e07 4793ef2b 4399f4d9 c39742b8 431476d8 44c05602
    4117ffdf 41ae15ea 40667efa 409fa01e 3fcba56d 3ef9bc27 bf192a26 c19f30d5
    3def3576 3e1925a2 bca3cbec bf8c8b3e bc3974cb bd2f05c6 bd853b48 bd923541
    bd7a2495 bcfae945 bb13aa33 3c3a05d0 3c2d8bb7 3b397fb8 39ad7508 37a71ecd
    """
    ),
)

ERF_FAST = Table(
    -6,
    3.9999997615814209,
    False,
    _rows(
        """
    00000000 b10cde90 b1a2ae9f b2240eac b2cda9f0 b38ca2db b4224eb9 b4a37b50
    b54cbfe3 b60bb4c8 b6a0d008 b7214ef8 b7c92151 b8880a92 b91af50e b999963c
    ba3b3cf5 baf47fa3 bb856f06 bbfb944c bc8bfab4 bd1da8ee bd8f3e77 bddb588a
    be1b325e be0de052 3bfe9e29 3e84c7ab 3f22e46c 3f6bf14e 3f7dad81 3f7fd9f8

    3f906ebb 3f906ebe 3f906ec0 3f906ec5 3f906ed0 3f906eeb 3f906f18 3f906f5f
    3f907012 3f9071b8 3f90748d 3f9078e1 3f9083d9 3f909d6a 3f90c8b2 3f9109df
    3f91aad0 3f9312f5 3f955370 3f987d60 3f9f86af 3faca758 3fbcc4a3 3fcd1e6d
    3fddfdc4 3fda91a0 3fb56aa0 3f7c69cb 3edc1ac3 3da22f9f 3c022313 39ea21bf

    b7c9c272 b7e827fc b80b59c5 b871f669 b8cc5627 b93d50e5 b99968a6 b9eb2db8
    ba4c82da baba3a39 bb196037 bb687731 bbc98bf9 bc363425 bc94a092 bcdf1a16
    bd3dd13c bda6a9d9 be0342d7 be3d2516 be9572df bee97522 bf1fc782 bf454876
    bf66ac86 bf621cd2 bf30ee0e bee38a17 be2eb85e bcdb40a8 bb1823a0 b8f05f81

    bebfecb1 bec03f26 bec03dc3 bec01216 bebfdd92 bebf7fcc bebf1974 bebe9bb1
    bebdba4f bebc5538 bebaa94c beb8c737 beb55164 beafe7e5 bea986ef bea26e15
    be95ba22 be82a243 be5ab689 be2e8d76 bdce421d bc56114a 3d7d88bb 3df18f3c
    3e24e310 3e20fe8d 3deb15fe 3d8aaa49 3cba1cfc 3b4622f0 396d6ea6 37249b03
    """
    ),
)
