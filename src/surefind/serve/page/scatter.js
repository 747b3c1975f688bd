// Drawing the map's points, and finding one of them.

const REACH = 14; // pixels from which a point counts as meant
const AROUND = 2 * Math.PI;

/** Draws everything: `look` says colours, the class set off, the hits ringed and the point under the hand. */
export function draw(canvas, points, camera, look) {
  const pen = canvas.getContext("2d");
  const fine = devicePixelRatio || 1;
  pen.setTransform(fine, 0, 0, fine, 0, 0);
  pen.clearRect(0, 0, camera.size.width, camera.size.height);
  const radius = Math.min(9, 3 * Math.sqrt(camera.zoom) * (points.items.length > 1500 ? 1 : 1.3));
  for (const inFront of [false, true]) {
    for (let n = 0; n < points.items.length; n += 1) {
      if (look.isSetOff(n) === inFront) dot(pen, points, camera, { n, radius, look });
    }
  }
  for (const n of look.ringed) ring(pen, points, camera, { n, radius: radius + 3, colour: look.ringColour, wide: 2 });
  if (look.current !== null) ring(pen, points, camera, { n: look.current, radius: radius + 5, colour: look.ringColour, wide: 3 });
}

/** Canvas pixels are the screen's, whatever the zoom of the browser. */
export function fit(canvas, camera) {
  const { width, height } = canvas.getBoundingClientRect();
  const fine = devicePixelRatio || 1;
  camera.size = { width, height };
  canvas.width = Math.round(width * fine);
  canvas.height = Math.round(height * fine);
}

/** The point under the hand, or null. */
export function nearest(points, camera, { x, y }) {
  let best = null;
  let reach = REACH;
  for (let n = 0; n < points.items.length; n += 1) {
    const far = Math.hypot(camera.across(points.x[n]) - x, camera.down(points.y[n]) - y);
    if (far < reach) { best = n; reach = far; }
  }
  return best;
}

/** The nearest point in a direction: ahead more than aside. */
export function towards(points, camera, { from, right, down }) {
  const [x, y] = [camera.across(points.x[from]), camera.down(points.y[from])];
  let best = null;
  let least = Infinity;
  for (let n = 0; n < points.items.length; n += 1) {
    const [dx, dy] = [camera.across(points.x[n]) - x, camera.down(points.y[n]) - y];
    const ahead = dx * right + dy * down;
    const aside = Math.abs(dx * down) + Math.abs(dy * right);
    const far = Math.hypot(dx, dy) + aside;
    if (n !== from && ahead > 0 && aside <= ahead && far < least) { best = n; least = far; }
  }
  return best;
}

function dot(pen, points, camera, { n, radius, look }) {
  const setOff = look.isSetOff(n);
  pen.globalAlpha = setOff ? 0.85 : 0.18;
  pen.fillStyle = look.colours[n];
  pen.beginPath();
  pen.arc(camera.across(points.x[n]), camera.down(points.y[n]), radius, 0, AROUND);
  pen.fill();
  pen.globalAlpha = 1;
}

function ring(pen, points, camera, { n, radius, colour, wide }) {
  pen.strokeStyle = colour;
  pen.lineWidth = wide;
  pen.beginPath();
  pen.arc(camera.across(points.x[n]), camera.down(points.y[n]), radius, 0, AROUND);
  pen.stroke();
}
