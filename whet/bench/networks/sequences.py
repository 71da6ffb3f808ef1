"""Networks of sequences: BERT, a step of GPT-2 with its cache, ViT, an LSTM."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

Made = tuple[nn.Module, dict[str, Tensor]]


class _Attention(nn.Module):
    """Attention of several heads; a cache of earlier keys and values comes and goes where given."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        """(batch, tokens, width) as (batch, heads, tokens, width of a head)."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, past: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (self.split(part(x)) for part in (self.query, self.key, self.value))
        if past is not None:
            k, v = (torch.cat([old, new], 2) for old, new in zip(past, (k, v)))
        made = scaled_dot_product_attention(q, k, v, mask)
        return self.out(made.transpose(1, 2).flatten(2)), k, v


class _Layer(nn.Module):
    """Attention and a network of two layers, each added to its input; norms before or behind."""

    def __init__(self, width: int, heads: int, inner: int, first: bool, gelu: str) -> None:
        super().__init__()
        self.first = first
        self.attention = _Attention(width, heads)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.inner = nn.Sequential(
            nn.Linear(width, inner), nn.GELU(approximate=gelu), nn.Linear(inner, width)
        )

    def forward(self, x: Tensor, mask: Any = None, past: Any = None) -> tuple[Tensor, ...]:
        one, two = self.norms
        if self.first:
            made, k, v = self.attention(one(x), mask, past)
            x = x + made
            return x + self.inner(two(x)), k, v
        made, k, v = self.attention(x, mask, past)
        x = one(x + made)
        return two(x + self.inner(x)), k, v


class _Bert(nn.Module):
    def __init__(self, width: int, depth: int, heads: int, tokens: int, words: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(tokens, width)
        self.kinds = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(
            _Layer(width, heads, 4 * width, False, "none") for _ in range(depth)
        )
        self.pooled = nn.Linear(width, width)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(ids.shape[1])
        x = self.words(ids) + self.places(places) + self.kinds(torch.zeros_like(ids))
        x = self.norm(x)
        added = (1.0 - mask[:, None, None, :].to(x.dtype)) * -1e4
        for layer in self.layers:
            x, *_ = layer(x, added)
        return x, torch.tanh(self.pooled(x[:, 0]))


def bert_base(
    batch: int, tokens: int = 128, width: int = 768, depth: int = 12, heads: int = 12,
    words: int = 30522,
) -> Made:  # fmt: skip
    """BERT-base: identities of words and a mask in, states of all tokens and the pooled one out."""
    ids = torch.randint(words, (batch, tokens))
    mask = torch.ones(batch, tokens, dtype=torch.int64)
    mask[:, tokens - tokens // 8 :] = 0
    return _Bert(width, depth, heads, tokens, words), {"ids": ids, "mask": mask}


class _Gpt2(nn.Module):
    def __init__(self, width: int, depth: int, heads: int, places: int, words: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.layers = nn.ModuleList(
            _Layer(width, heads, 4 * width, True, "tanh") for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids: Tensor, place: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        x = self.words(ids) + self.places(place)
        kept: list[Tensor] = []
        for k, layer in enumerate(self.layers):
            x, keys, values = layer(x, None, (past[2 * k], past[2 * k + 1]))
            kept += [keys, values]
        return self.head(self.norm(x)), *kept


def gpt2_step(
    batch: int, past: int = 127, width: int = 768, depth: int = 12, heads: int = 12,
    words: int = 50257,
) -> Made:  # fmt: skip
    """A step of GPT-2: one token and the keys and values of those before; all with it come out."""
    inputs = {
        "ids": torch.randint(words, (batch, 1)),
        "place": torch.full((batch, 1), past, dtype=torch.int64),
    }
    shape = (batch, heads, past, width // heads)
    for k in range(depth):
        inputs |= {f"{what}{k}": torch.randn(shape) for what in ("key", "value")}
    return _Gpt2(width, depth, heads, past + 1, words), inputs


class _Vit(nn.Module):
    def __init__(
        self, size: int, patch: int, width: int, depth: int, heads: int, classes: int
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, width))
        self.layers = nn.ModuleList(
            _Layer(width, heads, 4 * width, True, "none") for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        for layer in self.layers:
            x, *_ = layer(x)
        out: Tensor = self.head(self.norm(x)[:, 0])
        return out


def vit_base(
    batch: int, size: int = 224, patch: int = 16, width: int = 768, depth: int = 12,
    heads: int = 12, classes: int = 1000,
) -> Made:  # fmt: skip
    """ViT-base of patches of 16 x 16."""
    made = _Vit(size, patch, width, depth, heads, classes)
    return made, {"image": torch.randn(batch, 3, size, size)}


class _Lstm(nn.Module):
    def __init__(self, words: int, width: int, depth: int, classes: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.cells = nn.LSTM(width, width, depth, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, ids: Tensor) -> Tensor:
        states, _ = self.cells(self.words(ids))
        out: Tensor = self.head(states[:, -1])
        return out


def lstm(
    batch: int, tokens: int = 64, width: int = 256, depth: int = 2, classes: int = 5,
    words: int = 10000,
) -> Made:  # fmt: skip
    """A classifier of sequences: an LSTM both ways, and a layer on its last state."""
    return _Lstm(words, width, depth, classes), {"ids": torch.randint(words, (batch, tokens))}
