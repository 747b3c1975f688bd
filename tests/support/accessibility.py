"""Accessibility checks in the browser: contrast, accessible names, visible focus."""

from typing import Any

from playwright.sync_api import Page

AA = 4.5  # WCAG 2.2 contrast for text; 3 for large text


def scrolls_sideways(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth"))


def contrast_problems(page: Page) -> list[str]:
    """Visible texts whose contrast with the background is below AA."""
    found: list[dict[str, Any]] = page.evaluate(_TEXTS)
    assert len(found) > 10, "the page has hardly any text"
    return [
        f"{one['text']!r}: {one['contrast']:.2f}"
        for one in found
        if one["contrast"] < (3 if one["large"] else AA) - 0.005
    ]


def unnamed(page: Page) -> list[str]:
    """Roles of focusable elements without an accessible name."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [
        node["role"]["value"]
        for node in nodes
        if not node.get("ignored")
        and any(one["name"] == "focusable" for one in node.get("properties", []))
        and not node.get("name", {}).get("value")
        and node["role"]["value"] not in ("RootWebArea", "Iframe", "MenuListPopup")
    ]


def tab_stops(page: Page) -> list[dict[str, Any]]:
    """Elements in Tab order, and whether the focus is visible there."""
    page.evaluate(_REMEMBER_LOOKS)
    stops: list[dict[str, Any]] = []
    for _ in range(200):
        page.keyboard.press("Tab")
        stop = page.evaluate(_FOCUSED)
        if stop is None or (stops and stop["number"] == stops[0]["number"]):
            return stops
        stops.append(stop)
    raise AssertionError("Tab never reaches the end of the page")


# Colours are read by drawing a pixel, which works for every CSS notation.
_TEXTS = """() => {
    const pen = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
    const known = new Map();
    const read = (colour) => {
        if (!known.has(colour)) {
            pen.clearRect(0, 0, 1, 1);
            pen.fillStyle = colour;
            pen.fillRect(0, 0, 1, 1);
            const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
            known.set(colour, [r, g, b, a / 255]);
        }
        return known.get(colour);
    };
    const over = (front, back, opacity = 1) => {
        const a = front[3] * opacity;
        return [0, 1, 2].map((n) => front[n] * a + back[n] * (1 - a)).concat(1);
    };
    const ground = (element) => {
        if (element === null) return [255, 255, 255, 1];
        const style = getComputedStyle(element);
        const own = read(style.backgroundColor);
        return own[3] === 1 ? own : over(own, ground(element.parentElement), Number(style.opacity));
    };
    const light = ([r, g, b]) => {
        const [x, y, z] = [r, g, b].map((part) => part / 255).map(
            (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const contrast = (one, other) => {
        const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    };
    const opacity = (one) => (one === null ? 1
        : Number(getComputedStyle(one).opacity) * opacity(one.parentElement));
    const seen = (element) => {
        const box = element.getBoundingClientRect();
        return element.checkVisibility({visibilityProperty: true}) && box.width > 0
            && box.right > 0 && box.bottom > 0 && !element.closest(":disabled, noscript, option");
    };
    const told = [];
    const tell = (element, text, colour) => {
        const [style, behind] = [getComputedStyle(element), ground(element)];
        const [size, bold] = [parseFloat(style.fontSize), Number(style.fontWeight) >= 700];
        const front = over(read(colour), behind, opacity(element));
        told.push({
            text, contrast: contrast(front, behind),
            large: size >= 24 || (bold && size >= 18.66),
        });
    };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const [text, element] = [walker.currentNode.data.trim(), walker.currentNode.parentElement];
        if (text === "" || !seen(element)) continue;
        const style = getComputedStyle(element);
        tell(element, text, element instanceof SVGElement ? style.fill : style.color);
    }
    const fields = "input[type=text], input[type=password], select";
    for (const field of document.querySelectorAll(fields)) {
        if (!seen(field)) continue;
        tell(field, field.value || field.id, getComputedStyle(field).color);
        if (field.placeholder) {
            tell(field, field.placeholder, getComputedStyle(field, "::placeholder").color);
        }
    }
    return told;
}"""

_LOOKS = """(element) => [element, element.nextElementSibling, element.closest("label")].map(
    (one) => {
        if (one === null) return "";
        const style = getComputedStyle(one);
        const outline = style.outlineStyle === "none" ? "" : style.outline;
        return [outline, style.boxShadow, style.left].join();
    }).join("|")"""

_REMEMBER_LOOKS = """() => {
    document.activeElement.blur();
    document.body.tabIndex = -1;
    document.body.focus(); // Tab goes on from there
    document.body.removeAttribute("tabindex");
    window.looksOf = LOOKS;
    window.looked = new Map(
        [...document.querySelectorAll("*")].map((one) => [one, looksOf(one)]));
}""".replace("LOOKS", _LOOKS)

_FOCUSED = """() => {
    const one = document.activeElement;
    if (one === document.body || one === null) return null;
    return {
        number: [...looked.keys()].indexOf(one),
        what: one.id || one.className || one.tagName,
        // Inside a frame that has loaded, the ring is around something of the frame's own.
        seen: one.tagName === "IFRAME" || looksOf(one) !== looked.get(one),
    };
}"""
