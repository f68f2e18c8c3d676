"""Edge-wise kernels and their gradients, against plain Python over nonzeros and dense float64."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from cases import pairs

from plancc.errors import InputError
from plancc_runtime.kernels.edges import Pattern
from plancc_runtime.nn.operators import (
    REDUCTIONS,
    aggregate,
    attention,
    edge_scores,
    edge_softmax,
    graph_attention,
    weighted_sum,
)

NATIVE = pytest.mark.parametrize("native", [True, False], ids=["numba", "torch"])
# Rows 0 and 4 are empty, row 2 is long, columns are unsorted, column 7 is unused.
ROWS = [[], [3, 0, 5], [8, 1, 2, 6, 0, 4, 5, 3], [6], [], [2, 1]]
M, N, D = len(ROWS), 9, 2
COLUMN = np.array([j for row in ROWS for j in row], np.int32)
ROW_PTR = np.cumsum([0] + [len(row) for row in ROWS])
NNZ = len(COLUMN)


def small_pattern(native: bool) -> Pattern:
    return Pattern.from_csr(ROW_PTR, COLUMN, N, native=native)


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    """Away from 0, where quotients and rectifiers are not smooth."""
    random = np.random.default_rng([seed, *shape])
    sign = random.choice([-1.0, 1.0], shape)
    return torch.from_numpy(sign * random.uniform(0.5, 2, shape)).requires_grad_()


def random_pattern(m: int, n: int, degree: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    ptr = np.zeros(m + 1, np.int64)
    degrees = np.minimum(random.pareto(1.2, m) * degree, n).astype(int)
    np.cumsum(degrees, out=ptr[1:])
    return ptr, random.integers(0, n, ptr[-1]).astype(np.int32)


@NATIVE
def test_a_tie_sends_the_gradient_to_the_first_nonzero(native):
    pattern = Pattern.from_csr(np.array([0, 4, 6]), np.array([2, 1, 0, 3, 3, 2]), 4, native=native)
    x = torch.tensor([[5.0], [5.0], [1.0], [5.0]]).requires_grad_()
    aggregate(pattern, x, reduce="max").backward(torch.tensor([[10.0], [1.0]]))
    assert x.grad.flatten().tolist() == [0, 10, 0, 1]  # row 0: nonzero (0, 1) before (0, 0), (0, 3)


@NATIVE
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_nan_is_not_swallowed(native, reduce):
    x = draw(N, D).detach()
    x[0, 1] = float("nan")
    out = aggregate(small_pattern(native), x, reduce=reduce)
    assert out.isnan().nonzero().tolist() == [[1, 1], [2, 1]]  # rows 1 and 2 have column 0


def dense_attention(source, target, x, slope, scale):
    """Over all pairs with -inf outside the pattern; rows without nonzeros are left 0."""
    score = torch.nn.functional.leaky_relu(target[:, None] + source[None], slope)  # [m, n, heads]
    inside = torch.zeros(M, N, dtype=torch.bool)
    mask = torch.zeros(M, N, source.shape[1], dtype=torch.float64)
    e = 0
    for i, row in enumerate(ROWS):
        for j in row:
            inside[i, j] = True
            mask[i, j] = 1 if scale is None else scale[e]
            e += 1
    filled = [i for i, row in enumerate(ROWS) if row]
    alpha = score.masked_fill(~inside[:, :, None], -math.inf)[filled].softmax(dim=1) * mask[filled]
    out = torch.zeros(M, *x.shape[1:], dtype=torch.float64)
    return out.index_copy(0, torch.tensor(filled), torch.einsum("mnh,nhd->mhd", alpha, x))


@pairs(
    native=[True, False],
    shape=[(3, 13), (2, 1)],
    mean=[False, True],
    spread=[1.0, 400.0],  # beyond what factors per vertex can hold
    apart=[False, True],
)
def test_graph_attention_of_projected_rows(native, shape, mean, spread, apart):
    """Scores, bias, means of heads too; own columns of rows are anywhere, or targets are given."""
    heads, d = shape
    pattern, places = small_pattern(native), torch.arange(M).flip(0) % N
    x, vectors = draw(N, heads * d), draw(2, heads, d, seed=5)
    bias = draw(d if mean else heads * d, seed=6)
    scale = 2.0 * (draw(NNZ, heads).detach() > 0).double()

    def ours(x, vectors, bias, target=None):
        first = spread * vectors if target is None else spread * vectors[:1]
        return graph_attention(pattern, x, first, places, bias, mean, scale, target)

    def dense(x, vectors, bias, target=None):
        rows = x.reshape(N, heads, d)
        source, own = (torch.einsum("nhd,hd->nh", rows, spread * v) for v in vectors)
        target = own[places] if target is None else target
        out = dense_attention(source, target, rows, 0.2, scale)
        return (out.mean(1) if mean else out.reshape(M, -1)) + bias

    inputs = (x, vectors, bias, *([draw(M, heads, seed=7)] if apart else []))
    out, expected = ours(*inputs), dense(*inputs)
    torch.testing.assert_close(out, expected, rtol=1e-11, atol=1e-11)
    g = draw(*out.shape, seed=3).detach()
    mine, theirs = (torch.autograd.grad(each, inputs, g) for each in (out, expected))
    torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)


@NATIVE
def test_scores_softmax_and_weighted_sum(native):
    pattern, heads = small_pattern(native), 2
    source, target, x = draw(N, heads), draw(M, heads, seed=7), draw(N, heads, 4)
    scores = edge_scores(pattern, source, target)
    e = 0
    for i, row in enumerate(ROWS):
        for j in row:
            assert torch.equal(scores[e], source[j] + target[i])
            e += 1
    alpha = edge_softmax(pattern, scores)
    out = weighted_sum(pattern, alpha, x)
    torch.testing.assert_close(out, dense_attention(source, target, x, 1.0, None))
    assert torch.autograd.gradcheck(lambda *a: edge_scores(pattern, *a), (source, target))
    weights = draw(NNZ, heads)
    assert torch.autograd.gradcheck(lambda s: edge_softmax(pattern, s), (weights,))
    assert torch.autograd.gradcheck(lambda *a: weighted_sum(pattern, *a), (weights, x))


@NATIVE
def test_large_scores_do_not_overflow(native):
    pattern = small_pattern(native)
    scores = (1000 * draw(NNZ, 2)).detach().float()
    alpha = edge_softmax(pattern, scores)
    total = torch.zeros(M, 2).index_add(0, pattern.row, alpha)
    torch.testing.assert_close(total, torch.tensor([[float(bool(row))] * 2 for row in ROWS]))
    x = torch.ones(N, 2, 3)
    source, target = 1e4 * draw(N, 2).detach().float(), 1e4 * draw(M, 2).detach().float()
    out = attention(pattern, source, target, x)
    torch.testing.assert_close(out[:, 0, 0], total[:, 0])


def everything(pattern: Pattern, seed: int = 0) -> list[torch.Tensor]:
    """Outputs and gradients of what the layers use, float32."""
    m, n, nnz = pattern.num_rows, pattern.num_columns, pattern.num_nonzeros
    device = pattern.rows.ptr.device

    def leaf(*shape: int) -> torch.Tensor:
        return draw(*shape, seed=seed).detach().float().to(device).requires_grad_()

    x, heads = leaf(n, 24), leaf(n, 4, 6)
    weight, wide, source, target = leaf(nnz), leaf(nnz, 24), leaf(n, 4), leaf(m, 4)
    calls = {
        **{r: (lambda r=r: aggregate(pattern, x, reduce=r), [x]) for r in REDUCTIONS},
        "mul": (lambda: aggregate(pattern, x, weight), [x, weight]),
        "wide": (lambda: aggregate(pattern, x, wide), [x, wide]),
        "fused": (lambda: attention(pattern, source, target, heads), [source, target, heads]),
        "softmax": (lambda: edge_softmax(pattern, edge_scores(pattern, source, target)), [source]),
    }
    results = []
    for call, inputs in calls.values():
        out = call()
        g = draw(*out.shape, seed=seed).detach().float().to(device)
        results += [out.detach(), *torch.autograd.grad(out, inputs, g)]
    return results


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_the_number_of_threads_changes_no_bit(threads):
    ptr, column = random_pattern(1500, 1000, 2)
    results = []
    for count in (1, 2, 5):
        threads(count)
        results.append(everything(Pattern.from_csr(ptr, column, 1000)))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_torch_operations_agree_with_the_kernels():
    ptr, column = random_pattern(400, 300, 4)
    kernels, torchs = (
        everything(Pattern.from_csr(ptr, column, 300, native=native)) for native in (True, False)
    )
    assert {each.dtype for each in kernels} == {torch.float32}
    torch.testing.assert_close(kernels, torchs, rtol=1e-4, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.usefixtures("cuda")
def test_the_gpu_agrees_with_the_kernels():
    ptr, column = random_pattern(1500, 1000, 2)
    there = everything(Pattern.from_csr(ptr, column, 1000, "cuda"))
    for a, b in zip(everything(Pattern.from_csr(ptr, column, 1000)), there, strict=True):
        torch.testing.assert_close(a, b.cpu(), rtol=1e-4, atol=1e-3)


@NATIVE
@pytest.mark.parametrize(("m", "n"), [(3, 4), (0, 4), (0, 0)])
def test_a_pattern_without_nonzeros(native, m, n):
    pattern = Pattern.from_csr(np.zeros(m + 1, np.int64), np.empty(0, np.int32), n, native=native)
    for reduce, weight in product(REDUCTIONS, (None, draw(0, D))):
        x = draw(n, D)
        out = aggregate(pattern, x, None if reduce == "max" else weight, reduce)
        assert out.shape == (m, D)
        assert not out.any()
        out.sum().backward()
        assert not x.grad.any()
    out = attention(pattern, draw(n, 2), draw(m, 2), draw(n, 2, 3))
    assert out.shape == (m, 2, 3)
    assert not out.any()


@NATIVE
def test_operands_may_be_views(native):
    pattern = small_pattern(native)
    x, heads, alpha = draw(D, N).T, draw(4, N, 2).permute(1, 2, 0), draw(2, NNZ).T
    for reduce in REDUCTIONS:
        ours = aggregate(pattern, x, reduce=reduce)
        assert torch.equal(ours, aggregate(pattern, x.contiguous(), reduce=reduce))
        ours.sum().backward()  # its gradient is one number, expanded
    expected = weighted_sum(pattern, alpha.contiguous(), heads.contiguous())
    assert torch.equal(weighted_sum(pattern, alpha, heads), expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reduce": "prod"}, "unknown reduction 'prod'; choose from sum, mean, max"),
        ({"reduce": "max", "weight": (NNZ,)}, "reduction 'max' does not support `weight`"),
        ({"weight": (NNZ + 1,)}, rf"weight of shape \[{NNZ + 1}, 1\]:"),
        ({"weight": (NNZ, 3)}, rf": shape \[{NNZ}, {D}\] is needed"),
    ],
)
def test_wrong_operands_are_one_sentence(options, message):
    drawn = {k: v if isinstance(v, str) else draw(*v) for k, v in options.items()}
    with pytest.raises(InputError, match=message):
        aggregate(small_pattern(True), draw(N, D), **drawn)


def test_wrong_shapes_never_reach_a_kernel():
    with pytest.raises(InputError, match="is not between 0 and 7"):
        Pattern.from_csr(ROW_PTR, COLUMN, N - 1)
    pattern = small_pattern(True)
    with pytest.raises(InputError, match=r"x of shape \[8, 2\]: shape \[9, any\] is needed"):
        aggregate(pattern, draw(N - 1, D))
    with pytest.raises(InputError, match="float32 or float64"):
        aggregate(pattern, draw(N, D).detach().half())
    with pytest.raises(InputError, match=r"float32: torch\.float64 is needed"):
        aggregate(pattern, draw(N, D), draw(NNZ).float())
    with pytest.raises(InputError, match="target of shape"):
        edge_scores(pattern, draw(N, 2), draw(M, 1))
    with pytest.raises(InputError, match="scores of shape"):
        edge_softmax(pattern, draw(NNZ - 1, 2))
    with pytest.raises(InputError, match="alpha of shape"):
        weighted_sum(pattern, draw(NNZ, 1), draw(N, 2, 3))
    operands = draw(N, 2), draw(M, 2), draw(N, 2, 3)
    with pytest.raises(InputError, match=r"negative_slope -0\.1"):
        attention(pattern, *operands, -0.1)
    with pytest.raises(InputError, match="scale of shape"):
        attention(pattern, *operands, scale=draw(NNZ, 1))
