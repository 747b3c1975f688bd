// DOM helpers. Text is only ever inserted as text, never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** An HTML element; attributes that are null or false are left out. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** A button that calls `clicked`. */
export function button(attributes, clicked, ...children) {
  const made = element("button", { type: "button", ...attributes }, ...children);
  made.addEventListener("click", clicked);
  return made;
}

/** A horizontal bar filled to a share; `more` is drawn over it. */
export function bar(share, ...more) {
  const fill = element("span", { class: "fill" });
  fill.style.width = `${100 * share}%`;
  return element("span", { class: "bar", "aria-hidden": "true" }, fill, ...more);
}

/** Set the text of an existing element. */
export function say(id, words) {
  byId(id).replaceChildren(...unbroken(words ?? ""));
}

/** Text in which percentages and `code` do not wrap. */
export function unbroken(words) {
  return words.split(/((?:[<>] )?[\d.,]+ %|`[^`]+`)/).map((part, n) => {
    if (n % 2 === 0) return part;
    return part.startsWith("`") ? element("code", { class: "whole" }, part.slice(1, -1)) : element("span", { class: "whole" }, part);
  });
}

/** A command to type, with a button that copies it. */
export function codeBox(command) {
  const code = element("code", {}, command);
  const copy = button({ class: "quiet copy" }, async () => {
    try {
      await navigator.clipboard.writeText(command);
      copy.textContent = "Copied";
    } catch {
      // Without TLS there is no clipboard access: select the text instead.
      getSelection().selectAllChildren(code);
      copy.textContent = "Press Ctrl-C";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  }, "Copy");
  return element("div", { class: "code" }, code, copy);
}

/** Radio buttons in a fieldset that already has its legend. */
export function radios(fieldset, { name, choices, chosen }) {
  const rows = choices.map(({ value, words }) => element(
    "label", {},
    element("input", { type: "radio", name, value, checked: value === chosen }),
    element("span", {}, words),
  ));
  fieldset.replaceChildren(fieldset.querySelector("legend"), element("div", { class: "radios" }, ...rows));
}

function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
