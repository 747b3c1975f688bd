// Canvas of the map: view transform, gestures, drawing and hit testing.

const MOST_ZOOM = 40;
const EDGE = 18;
const CLICK = 5; // pixels a click may move
const REACH = 14; // pixels within which a point is hit

const middle = ([low, high]) => (low + high) / 2;

function ends(values) {
  const widened = ([low, high], value) => [Math.min(low, value), Math.max(high, value)];
  return values.reduce(widened, [Infinity, -Infinity]);
}

/** Clamp a centre so that `half` on either side stays on the map. */
function kept(value, [low, high], half) {
  if (high - low <= 2 * half) return middle([low, high]);
  return Math.min(high - half, Math.max(low + half, value));
}

/** Transform between map and canvas coordinates, with the same scale on both axes. */
export class View {
  constructor() {
    this.size = { width: 1, height: 1 };
    this.frame([0, 1], [0, 1]);
  }

  /** Set the points to show. */
  frame(x, y) {
    this.ends = { x: ends(x), y: ends(y) };
    this.whole();
  }

  whole() {
    this.zoom = 1;
    this.x = middle(this.ends.x);
    this.y = middle(this.ends.y);
  }

  /** Pixels per map unit. */
  get unit() {
    const fits = (pixels, [low, high]) => Math.max(1, pixels - 2 * EDGE) / Math.max(high - low, 1e-6);
    return this.zoom * Math.min(fits(this.size.width, this.ends.x), fits(this.size.height, this.ends.y));
  }

  across(x) { return this.size.width / 2 + (x - this.x) * this.unit; }

  down(y) { return this.size.height / 2 + (y - this.y) * this.unit; }

  /** Zoom around the canvas point (px, py). */
  zoomBy(factor, px = this.size.width / 2, py = this.size.height / 2) {
    const [dx, dy, before] = [px - this.size.width / 2, py - this.size.height / 2, this.unit];
    this.zoom = Math.min(MOST_ZOOM, Math.max(1, this.zoom * factor));
    this.moveTo(this.x + dx / before - dx / this.unit, this.y + dy / before - dy / this.unit);
  }

  panBy(px, py) { this.moveTo(this.x - px / this.unit, this.y - py / this.unit); }

  /** Scroll a point into view. */
  show(x, y) {
    const [px, py] = [this.across(x), this.down(y)];
    const seen = px > 0 && py > 0 && px < this.size.width && py < this.size.height;
    if (!seen) this.moveTo(x, y);
  }

  moveTo(x, y) {
    this.x = kept(x, this.ends.x, (this.size.width / 2 - EDGE) / this.unit);
    this.y = kept(y, this.ends.y, (this.size.height / 2 - EDGE) / this.unit);
  }
}

/** Wheel, drag and pinch move the view; a press without movement is a click. */
export function setUpGestures(canvas, view, { moved, hovered, clicked }) {
  const pointers = new Map();
  let travelled = 0;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { x, y } = at(event);
    view.zoomBy(Math.exp(-event.deltaY / 400), x, y);
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
    const other = [...pointers].find(([key]) => key !== event.pointerId)?.[1];
    travelled += Math.hypot(now.x - before.x, now.y - before.y);
    if (other === undefined) view.panBy(now.x - before.x, now.y - before.y);
    else {
      const apart = (point) => Math.max(1, Math.hypot(point.x - other.x, point.y - other.y));
      view.zoomBy(apart(now) / apart(before), (now.x + other.x) / 2, (now.y + other.y) / 2);
    }
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

/** Match the canvas resolution to the device pixels. */
export function fit(canvas, view) {
  const { width, height } = canvas.getBoundingClientRect();
  const fine = devicePixelRatio || 1;
  view.size = { width, height };
  canvas.width = Math.round(width * fine);
  canvas.height = Math.round(height * fine);
}

/** Draw all points; `look` has colours, highlighted class, ringed hits and the current point. */
export function draw(canvas, points, view, look) {
  const pen = canvas.getContext("2d");
  const fine = devicePixelRatio || 1;
  pen.setTransform(fine, 0, 0, fine, 0, 0);
  pen.clearRect(0, 0, view.size.width, view.size.height);
  const radius = Math.min(9, 3 * Math.sqrt(view.zoom) * (points.items.length > 1500 ? 1 : 1.3));
  const circle = (n, size) => {
    pen.beginPath();
    pen.arc(view.across(points.x[n]), view.down(points.y[n]), size, 0, 2 * Math.PI);
  };
  for (const inFront of [false, true]) {
    pen.globalAlpha = inFront ? 0.85 : 0.18;
    for (let n = 0; n < points.items.length; n += 1) {
      if (look.isSetOff(n) !== inFront) continue;
      pen.fillStyle = look.colours[n];
      circle(n, radius);
      pen.fill();
    }
  }
  pen.globalAlpha = 1;
  pen.strokeStyle = look.ringColour;
  const ring = (n, size, wide) => { pen.lineWidth = wide; circle(n, size); pen.stroke(); };
  for (const n of look.ringed) ring(n, radius + 3, 2);
  if (look.current !== null) ring(look.current, radius + 5, 3);
}

/** The point at a canvas position, or null. */
export function nearest(points, view, { x, y }) {
  let [best, reach] = [null, REACH];
  for (let n = 0; n < points.items.length; n += 1) {
    const far = Math.hypot(view.across(points.x[n]) - x, view.down(points.y[n]) - y);
    if (far < reach) [best, reach] = [n, far];
  }
  return best;
}

/** The nearest point in a direction. */
export function towards(points, view, { from, right, down }) {
  const [x, y] = [view.across(points.x[from]), view.down(points.y[from])];
  let [best, least] = [null, Infinity];
  for (let n = 0; n < points.items.length; n += 1) {
    const [dx, dy] = [view.across(points.x[n]) - x, view.down(points.y[n]) - y];
    const ahead = dx * right + dy * down;
    const aside = Math.abs(dx * down) + Math.abs(dy * right);
    const far = Math.hypot(dx, dy) + aside;
    if (n !== from && ahead > 0 && aside <= ahead && far < least) [best, least] = [n, far];
  }
  return best;
}
