// Which part of the map is seen, and the gestures that move it.

const MOST_ZOOM = 40;
const EDGE = 18;
const CLICK = 5; // pixels a finger may slip

/** Says where on the canvas a point of the map is; both directions have one scale. */
export class Camera {
  constructor() {
    this.size = { width: 1, height: 1 };
    this.frame([0, 1], [0, 1]);
  }

  /** Takes the points to be seen. */
  frame(x, y) {
    this.ends = { x: ends(x), y: ends(y) };
    this.whole();
  }

  whole() {
    this.zoom = 1;
    this.x = middle(this.ends.x);
    this.y = middle(this.ends.y);
  }

  /** Pixels of one unit of the map. */
  get unit() {
    const fits = (pixels, [low, high]) => Math.max(1, pixels - 2 * EDGE) / Math.max(high - low, 1e-6);
    return this.zoom * Math.min(fits(this.size.width, this.ends.x), fits(this.size.height, this.ends.y));
  }

  across(x) { return this.size.width / 2 + (x - this.x) * this.unit; }

  down(y) { return this.size.height / 2 + (y - this.y) * this.unit; }

  /** Zooms while the point under (px, py) stays where it is. */
  zoomBy(factor, px = this.size.width / 2, py = this.size.height / 2) {
    const [dx, dy, before] = [px - this.size.width / 2, py - this.size.height / 2, this.unit];
    this.zoom = Math.min(MOST_ZOOM, Math.max(1, this.zoom * factor));
    this.x += dx / before - dx / this.unit;
    this.y += dy / before - dy / this.unit;
    this.keepIn();
  }

  panBy(px, py) {
    this.x -= px / this.unit;
    this.y -= py / this.unit;
    this.keepIn();
  }

  /** Brings a point into sight. */
  show(x, y) {
    const [px, py] = [this.across(x), this.down(y)];
    const seen = px > 0 && py > 0 && px < this.size.width && py < this.size.height;
    if (!seen) { this.x = x; this.y = y; this.keepIn(); }
  }

  keepIn() {
    this.x = kept(this.x, this.ends.x, (this.size.width / 2 - EDGE) / this.unit);
    this.y = kept(this.y, this.ends.y, (this.size.height / 2 - EDGE) / this.unit);
  }
}

function ends(values) {
  const widened = ([low, high], value) => [Math.min(low, value), Math.max(high, value)];
  return values.reduce(widened, [Infinity, -Infinity]);
}

const middle = ([low, high]) => (low + high) / 2;

/** A middle from which `half` to either side stays on the map; where all of it is seen, the map's own. */
function kept(value, [low, high], half) {
  if (high - low <= 2 * half) return middle([low, high]);
  return Math.min(high - half, Math.max(low + half, value));
}

/** Wheel, drag and pinch move the camera; a press that does not move is a click. */
export function setUpGestures(canvas, camera, { moved, hovered, clicked }) {
  const pointers = new Map();
  let travelled = 0;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { x, y } = at(event);
    camera.zoomBy(Math.exp(-event.deltaY / 400), x, y);
    moved();
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (pointers.size === 0) travelled = 0;
    pointers.set(event.pointerId, at(event));
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = at(event);
    if (!pointers.has(event.pointerId)) { hovered(now); return; }
    const before = pointers.get(event.pointerId);
    travelled += Math.hypot(now.x - before.x, now.y - before.y);
    drag(camera, { pointers, id: event.pointerId, before, now });
    pointers.set(event.pointerId, now);
    if (travelled > CLICK) moved();
  });
  const gone = (event) => pointers.delete(event.pointerId);
  canvas.addEventListener("pointerup", (event) => {
    if (gone(event) && pointers.size === 0 && travelled <= CLICK) clicked(at(event));
  });
  canvas.addEventListener("pointercancel", gone);
  canvas.addEventListener("pointerleave", () => { if (pointers.size === 0) hovered(null); });
}

function drag(camera, { pointers, id, before, now }) {
  const other = [...pointers].find(([key]) => key !== id)?.[1];
  if (other === undefined) { camera.panBy(now.x - before.x, now.y - before.y); return; }
  const apart = (point) => Math.max(1, Math.hypot(point.x - other.x, point.y - other.y));
  camera.zoomBy(apart(now) / apart(before), (now.x + other.x) / 2, (now.y + other.y) / 2);
}
