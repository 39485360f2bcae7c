// Around the frames of pages, in a notebook or a site: each is as high as its page, and as light or dark as what is around
// it.
if (!window.regardFrames) {
  const all = () => [...document.querySelectorAll("iframe.regard")];
  window.regardFrames = all;
  const dark = (frame) =>
    getComputedStyle(frame.parentElement)
      .color.match(/[\d.]+/g)
      .slice(0, 3)
      .every((part) => part > 127);
  const tell = (frame) => frame.contentWindow.postMessage({ regardTheme: dark(frame) ? "dark" : "light" }, "*");
  addEventListener("message", ({ source, data }) => {
    const frame = all().find((one) => one.contentWindow === source);
    if (!frame || !data.regardHeight) return;
    frame.style.height = `${data.regardHeight}px`;
    tell(frame);
  });
  const changed = new MutationObserver(() => all().forEach(tell));
  [document.documentElement, document.body].forEach((part) => changed.observe(part, { attributes: true }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => all().forEach(tell));
}
