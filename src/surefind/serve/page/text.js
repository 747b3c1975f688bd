// Formatting of numbers and names.

const whole = new Intl.NumberFormat("en-US");

export const count = (number) => whole.format(number);

/** A share or probability in per cent without decimals; 0 and 100 only if it is exactly that. */
export function percent(value) {
  if (value === 0 || value === 1) return `${100 * value} %`;
  const whole = Math.round(100 * value);
  if (whole < 1) return "< 1 %";
  return whole > 99 ? "> 99 %" : `${whole} %`;
}

/** A threshold or measured quality in per cent with one decimal. */
export function exact(value) {
  return value === null ? "–" : `${Number((100 * value).toFixed(1))} %`;
}

/** A number with significant digits. */
export function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (value !== 0 && (Math.abs(value) < 0.001 || Math.abs(value) >= 10000)) return value.toExponential(1);
  return Number(value.toPrecision(digits)).toString();
}

export function bytes(size) {
  if (size < 1024) return `${size} B`;
  if (size < 1024 * 1024) return `${Math.round(size / 1024)} KB`;
  return `${Number((size / 1024 / 1024).toFixed(1))} MB`;
}

/** Shorten a name in the middle. */
export function shortened(name, most = 30) {
  const letters = Array.from(name);
  if (letters.length <= most) return name;
  const tail = Math.floor(most * 0.6);
  return `${letters.slice(0, most - tail - 1).join("")}…${letters.slice(-tail).join("")}`;
}

/** Capitalise and end with a full stop. */
export function sentence(words) {
  const text = words.charAt(0).toUpperCase() + words.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

export const many = (amount, one, several = `${one}s`) => `${count(amount)} ${amount === 1 ? one : several}`;

export const day = (moment) => moment.slice(0, 10);
