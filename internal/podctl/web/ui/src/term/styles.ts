// What xterm.js does with inline styles, by means that a Content-Security-Policy without 'unsafe-inline' allows: a
// constructed style sheet instead of a <style> element, and the element's style object instead of its attribute.
// build.mjs replaces the places in xterm.js by calls of these functions.

/** podstreamStyleElement returns an element whose text content is a style sheet of the document while it is in use. */
export function podstreamStyleElement(): HTMLElement {
  const element = document.createElement("span");
  element.hidden = true;
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  Object.defineProperty(element, "textContent", {
    get: () => "",
    set: (text: string) => sheet.replaceSync(text),
  });
  const remove = element.remove.bind(element);
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    remove();
  };
  return element;
}

/** podstreamStyle sets the style of an element as the attribute would. */
export function podstreamStyle(element: HTMLElement, style: string) {
  element.style.cssText = style;
}
