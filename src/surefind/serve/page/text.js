// Numbers and names in words.

const whole = new Intl.NumberFormat("en-US");

export const count = (number) => whole.format(number);

/** A confidence: never as if it were certain. */
export function percent(confidence) {
  if (confidence < 0.001) return "< 0.1 %";
  if (confidence > 0.999) return "> 99.9 %";
  const hundredths = 100 * confidence;
  return hundredths < 1 || hundredths > 99 ? `${hundredths.toFixed(1)} %` : `${Math.round(hundredths)} %`;
}

/** A share that was counted; all and none are possible. */
export function share(value) {
  if (value === 0 || value === 1) return `${100 * value} %`;
  return percent(value);
}

/** A threshold, with the digit that tells two close ones apart. */
export function threshold(value) {
  return `${Number((100 * value).toFixed(1))} %`;
}

/** The digits that say something. */
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

/** The middle left out: beginnings and endings of file names tell them apart. */
export function shortened(name, most = 30) {
  const letters = Array.from(name);
  if (letters.length <= most) return name;
  const tail = Math.floor(most * 0.6);
  return `${letters.slice(0, most - tail - 1).join("")}…${letters.slice(-tail).join("")}`;
}

/** What the server says in passing, as a sentence that stands alone. */
export function sentence(words) {
  const text = words.charAt(0).toUpperCase() + words.slice(1);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

export const many = (amount, one, several = `${one}s`) => `${count(amount)} ${amount === 1 ? one : several}`;

export const day = (moment) => moment.slice(0, 10);
