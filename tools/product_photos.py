"""Render made-up products (mugs, vases, bottles) from several sides: photos anyone may show.

python tools/product_photos.py FOLDER [--products 60] [--views 8] [--size 256]

FOLDER/product-00/0.jpg ... one folder per product: a shape, a glaze and a pattern of its own,
photographed in different light, on different tables, from different sides.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Array = NDArray[np.float64]
STEPS, FAR = 70, 9.0


class Product(NamedTuple):
    """A body of revolution, perhaps with a handle, and its paint."""

    radii: Array  # (7,) from bottom to top
    height: float
    handle: float  # radius of the ring; 0 for none
    colours: Array  # (3, 3) base, pattern, rim
    pattern: int  # 0 plain, 1 bands, 2 stripes, 3 dots, 4 waves
    count: int
    gloss: float


def product(seed: int) -> Product:
    """Draw one product."""
    random = np.random.default_rng(seed // 2)  # two products share a shape
    kind = random.integers(3)
    knots = random.uniform(0.25, 0.7, 7)
    if kind == 0:  # mug
        knots = np.full(7, random.uniform(0.45, 0.65)) + random.normal(0, 0.02, 7)
    elif kind == 1:  # bottle
        knots = np.array([0.5, 0.52, 0.52, 0.5, 0.3, 0.16, 0.17]) * random.uniform(0.8, 1.1)
    height = random.uniform(0.9, 1.2) if kind == 0 else random.uniform(1.4, 1.9)
    handle = random.uniform(0.25, 0.35) if kind == 0 and random.random() < 0.8 else 0.0
    random = np.random.default_rng((seed, 7))
    hue = (random.random() + np.array([0, random.uniform(0.2, 0.6), 0.5])) % 1
    value = random.uniform([0.6, 0.25, 0.15], [0.95, 0.9, 0.8])
    fade = random.uniform([0.1, 0.2, 0.0], [0.55, 0.7, 0.3])[:, None]
    ring = np.abs((hue[:, None] * 6 + np.array([0, 4, 2])) % 6 - 3) - 1
    colours = value[:, None] * (1 - fade + fade * np.clip(ring, 0, 1))
    return Product(
        knots, height, handle, colours, int(random.integers(5)), int(random.integers(3, 9)), random.uniform(0.1, 0.9)
    )


def radius(item: Product, up: Array) -> Array:
    """Of the body at a height, a smooth curve through its knots."""
    at = np.clip(up / item.height, 0, 1) * (len(item.radii) - 1)
    low = np.clip(at.astype(int), 0, len(item.radii) - 2)
    t = at - low
    t = t * t * (3 - 2 * t)
    return item.radii[low] * (1 - t) + item.radii[low + 1] * t


def body(item: Product, p: Array) -> Array:
    """Signed distance (a lower bound of it) to the product standing on the table, (N,)."""
    x, y, z = p.T
    across = np.hypot(x, y) - radius(item, z)
    along = np.abs(z - item.height / 2) - item.height / 2
    solid = np.maximum(across, along)
    solid = 0.7 * (solid - 0.03)
    found = np.maximum(solid, -0.7 * np.maximum(across + 0.06, 0.12 - z))
    if item.handle:
        middle = radius(item, np.full(1, item.height / 2))[0] + item.handle * 0.6
        ring = np.hypot(np.hypot(x - middle, z - item.height / 2) - item.handle, y) - 0.06
        found = np.minimum(found, np.maximum(ring, -(np.hypot(x, y) - radius(item, z) + 0.03)))
    return found


def paint(item: Product, p: Array) -> Array:
    """Colour of the surface at points, (N, 3)."""
    x, y, z = p.T
    angle, up = np.arctan2(y, x) / (2 * np.pi), z / item.height
    wave = {
        0: np.full(len(p), -1.0),
        1: np.sin(2 * np.pi * item.count * up),
        2: np.sin(2 * np.pi * item.count * 2 * angle),
        3: np.sin(2 * np.pi * item.count * 2 * angle) * np.sin(2 * np.pi * item.count * up) - 0.4,
        4: np.sin(2 * np.pi * (item.count * up + 0.3 * np.sin(2 * np.pi * 4 * angle))),
    }[item.pattern]
    colour = np.where((wave > 0)[:, None], item.colours[1], item.colours[0])
    return np.where((up > 0.97)[:, None], item.colours[2], colour)


def march(item: Product, start: Array, way: Array) -> tuple[Array, NDArray[np.bool_]]:
    """How far each ray goes before it meets the product, and whether it does."""
    far, live = np.zeros(len(way)), np.ones(len(way), dtype=bool)
    hit = np.zeros(len(way), dtype=bool)
    for _ in range(STEPS):
        rows = np.flatnonzero(live)
        if not len(rows):
            break
        step = body(item, start[rows] + far[rows, None] * way[rows])
        hit[rows] |= step < 2e-3
        far[rows] += np.maximum(step, 1e-3)
        live[rows] = (step >= 2e-3) & (far[rows] < FAR)
    return far, hit


def photo(seed: int, view: int, size: int) -> Image.Image:
    """One photo of a product: camera, light and table are drawn anew for each view."""
    item, random = product(seed), np.random.default_rng((seed, view))
    turn, tilt = random.uniform(-1.3, 1.3), random.uniform(0.15, 0.65)
    away = random.uniform(4.4, 5.4)
    eye = away * np.array([np.cos(tilt) * np.cos(turn), np.cos(tilt) * np.sin(turn), np.sin(tilt)])
    aim = np.array([*random.normal(0, 0.08, 2), item.height * 0.45])
    forward = (aim - eye) / np.linalg.norm(aim - eye)
    right = np.cross(forward, [0, 0, 1.0])
    right /= np.linalg.norm(right)
    fine = 2 * size
    grid = (np.arange(fine) + 0.5) / fine - 0.5
    u, v = np.meshgrid(grid, -grid)
    way = forward + 0.62 * (u[..., None] * right + v[..., None] * np.cross(right, forward))
    way = (way / np.linalg.norm(way, axis=-1, keepdims=True)).reshape(-1, 3)
    start = np.broadcast_to(eye, way.shape)
    light = np.array([random.uniform(-1, 1), random.uniform(-1, 1), random.uniform(0.9, 1.6)])
    light /= np.linalg.norm(light)
    far, hit = march(item, start, way)
    # the table
    table = np.where(way[:, 2] < -1e-3, -eye[2] / np.minimum(way[:, 2], -1e-3), np.inf)
    ground = start + np.minimum(table, 60)[:, None] * way
    wood = random.uniform(0.35, 0.9) * random.uniform([0.95, 0.78, 0.6], [1.0, 0.95, 0.92])
    grain = 0.05 * np.sin(14 * ground[:, 1] + 2 * np.sin(2.5 * ground[:, 0])) * random.uniform(0, 1.5)
    wall = random.uniform(0.45, 0.9) * random.uniform(0.92, 1.0, 3)
    fog = np.exp(-np.maximum(table - away, 0) / 4)[:, None]
    colour = fog * (wood + grain[:, None]) + (1 - fog) * wall
    near = np.flatnonzero((table < 12) & ~hit)
    shade = march(item, ground[near] + 0.01 * light, np.broadcast_to(light, (len(near), 3)))[1]
    soft = np.exp(-4 * np.maximum(np.hypot(*ground[near, :2].T) - item.radii[0], 0))
    colour[near] *= (1 - 0.45 * shade - 0.25 * soft)[:, None]
    # the product
    rows = np.flatnonzero(hit)
    p = start[rows] + far[rows, None] * way[rows]
    small = 2e-3 * np.eye(3)
    normal = np.stack([body(item, p + e) - body(item, p - e) for e in small], axis=1)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True) + 1e-9
    lit = np.clip(normal @ light, 0, 1)
    mirror = way[rows] - 2 * (way[rows] * normal).sum(1, keepdims=True) * normal
    shine = item.gloss * np.clip(mirror @ light, 0, 1) ** 40
    skyward = 0.5 + 0.5 * normal[:, 2]
    colour[rows] = paint(item, p) * (0.25 + 0.25 * skyward + 0.65 * lit)[:, None] + shine[:, None]
    picture = colour.reshape(fine, fine, 3).reshape(size, 2, size, 2, 3).mean(axis=(1, 3))
    picture *= random.uniform(0.85, 1.1) * random.uniform(0.94, 1.06, 3)
    picture = np.clip(picture, 0, 1) ** 0.8 + random.normal(0, 0.012, picture.shape)
    return Image.fromarray((255 * np.clip(picture, 0, 1)).astype(np.uint8))


def draw(folder: Path, views: int, size: int, seed: int) -> None:
    """All views of one product."""
    place = folder / f"product-{seed:02d}"
    place.mkdir(parents=True, exist_ok=True)
    for view in range(views):
        photo(seed, view, size).save(place / f"{view}.jpg", quality=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--products", type=int, default=60)
    parser.add_argument("--views", type=int, default=8)
    parser.add_argument("--size", type=int, default=256)
    given = parser.parse_args()
    with ProcessPoolExecutor() as pool:
        jobs = pool.map(partial(draw, given.folder, given.views, given.size), range(given.products))
        for _ in jobs:
            pass


if __name__ == "__main__":
    main()
