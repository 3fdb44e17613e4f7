"""Packed projections are filled by views, and the rotary table is what its formula says."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from engine.runtime.layers import GatedMlp, Projection, RmsNorm, rotary_table  # noqa: E402

CPU = torch.device("cpu")


def test_a_projection_filled_row_by_row_maps_as_the_checkpoints_matrix() -> None:
    projection = Projection(5, 7, torch.float32, CPU)
    weight = torch.randn(7, 5)
    with torch.no_grad():
        projection.rows(0, 3).copy_(weight[:3])
        projection.rows(3, 7).copy_(weight[3:])
    x = torch.randn(2, 5)
    torch.testing.assert_close(projection(x), x @ weight.T)


def test_the_mlp_gates_up_by_gate() -> None:
    mlp = GatedMlp(4, 6, torch.float32, CPU)
    gate, up, down, x = torch.randn(6, 4), torch.randn(6, 4), torch.randn(4, 6), torch.randn(3, 4)
    with torch.no_grad():
        mlp.gate_up.rows(0, 6).copy_(gate)
        mlp.gate_up.rows(6, 12).copy_(up)
        mlp.down.rows(0, 4).copy_(down)
    torch.testing.assert_close(mlp(x), (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T)


def test_a_norm_adds_its_residual_first() -> None:
    norm = RmsNorm(6, 1e-6, torch.float32, CPU)
    with torch.no_grad():
        norm.weight.copy_(torch.randn(6))
    x, residual = torch.randn(2, 6), torch.randn(2, 6)
    normed, total = norm.add(x, residual)
    assert torch.equal(total, x + residual)
    assert torch.equal(normed, norm(total))


def test_the_rotary_table_holds_cosines_and_sines_of_every_position() -> None:
    table = rotary_table(50, 8, 1e4, CPU).numpy()
    angles = np.outer(np.arange(50), 1e4 ** (-np.arange(0, 8, 2) / 8))
    np.testing.assert_allclose(table, np.concatenate((np.cos(angles), np.sin(angles)), axis=1), atol=1e-5)
