"""Write tests/functional/exact_reference.json: log P(tau < x) by mpmath at 60 digits.

    python tools/exact_reference.py

The law is taken from its definition, the generating function of a Gaussian vector's quadratic form
with 2 x 2 matrices, and inverted along a straight line through the saddlepoint. For D = 1 the
probability is instead an integral over n - p of a conditional normal one.
"""

import json
from pathlib import Path

import mpmath as mp
import torch

mp.mp.dps = 60
CASES = [(d, z) for d in (8, 16, 128, 512, 2048) for z in (-30, -4, -1, -0.01, 0, 0.5, 2, 5)]
LINE = [(1, z) for z in (-2, -0.5, 0.3, 2)]


def main() -> None:
    rows = []
    for number, (dim, z) in enumerate(LINE + CASES):
        generator = torch.Generator().manual_seed(number)
        means = torch.randn(3, dim, generator=generator, dtype=torch.float64)
        var = torch.randn(3, generator=generator, dtype=torch.float64).abs() + 0.05
        a, p, n = means
        distances = [float((x - y).square().sum()) for x, y in ((a, p), (a, n), (p, n))]
        variances = [float(v) for v in var]
        if dim == 1:  # the distances must be those of points on a line, exactly
            positions = [mp.mpf(float(x)) for x in means[:, 0]]
            distances = [float((positions[i] - positions[j]) ** 2) for i, j in ((0, 1), (0, 2), (1, 2))]
            x, value = on_a_line(positions, variances, z)
        else:
            x, value = by_inversion(distances, variances, dim, z)
        rows.append([dim, distances, variances, float(x), mp.nstr(value, 20)])
    path = Path(__file__).parents[1] / "tests" / "functional" / "exact_reference.json"
    path.write_text(json.dumps(rows).replace("], [", "],\n[") + "\n")


def by_inversion(distances: list[float], variances: list[float], dim: int, z: float):
    d_ap, d_an, d_pn = (mp.mpf(d) for d in distances)
    va, vp, vn = (mp.mpf(v) for v in variances)
    c = mp.matrix([[va + vp, va], [va, va + vn]])
    g = (d_ap + d_an - d_pn) / 2
    gram = mp.matrix([[d_ap, g], [g, d_an]])
    j = mp.matrix([[1, 0], [0, -1]])

    def k(t):
        m = mp.eye(2) - 2 * t * c * j
        quadratic = j * m**-1 * gram
        determinant = m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
        return t * (quadratic[0, 0] + quadratic[1, 1]) - mp.mpf(dim) / 2 * mp.log(determinant)

    mean, var = mp.diff(k, 0), mp.diff(k, 0, 2)
    x = mp.mpf(float(mean + z * mp.sqrt(var)))
    roots = mp.polyroots([-4 * (va * vp + va * vn + vp * vn), -2 * (vp - vn), 1])
    low, high = min(roots), max(roots)
    t = mp.findroot(
        lambda s: mp.diff(k, s) - x, (low * mp.mpf("0.9"), high * mp.mpf("0.9")), solver="ridder", verify=False
    )
    step = 1 / mp.sqrt(mp.diff(k, t, 2))
    left = t < 0
    # off the pole of 1/t, inside the strip
    cross = max(t - step, (t + low) / 2) if left else min(t + step, (t + high) / 2)
    base = (k(cross) - cross * x).real

    def integrand(y):
        s = mp.mpc(cross, y)
        return (mp.exp(k(s) - s * x - base) / s).real

    reach = 12 if dim >= 128 else 40 if dim >= 16 else 100
    edges = [step * e for e in mp.linspace(0, reach, reach + 1)]
    tail = abs(mp.quad(integrand, edges, maxdegree=5)) / mp.pi
    return x, (base + mp.log(tail)) if left else mp.log1p(-mp.exp(base) * tail)


def on_a_line(positions: list, variances: list[float], z: float):
    """tau = w v with w = n - p and v = 2 a - n - p, jointly normal."""
    a, p, n = positions
    va, vp, vn = (mp.mpf(v) for v in variances)
    mean_w, var_w = n - p, vn + vp
    mean_v, var_v, cov = 2 * a - n - p, 4 * va + vn + vp, vp - vn
    mean = mean_w * mean_v + cov
    var = mean_w**2 * var_v + mean_v**2 * var_w + 2 * mean_w * mean_v * cov + var_w * var_v + cov**2
    x = mp.mpf(float(mean + z * mp.sqrt(var)))
    rest = mp.sqrt(var_v - cov**2 / var_w)

    def density(w):
        centre = mean_v + cov / var_w * (w - mean_w)
        below = mp.ncdf((x / w - centre) / rest)
        return mp.npdf(w, mean_w, mp.sqrt(var_w)) * (below if w > 0 else 1 - below)

    std = mp.sqrt(var_w)
    cuts = sorted(
        {mean_w + s * std for s in range(-14, 15)} | {s * std / 10**k for k in range(6) for s in (-1, 1)} | {mp.mpf(0)}
    )
    return x, mp.log(mp.quad(density, cuts, maxdegree=8))


if __name__ == "__main__":
    main()
