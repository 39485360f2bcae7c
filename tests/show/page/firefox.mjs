// Drive Debian's Firefox over WebDriver BiDi: node firefox.mjs PUPPETEER FIREFOX FOLDER. The folder has story.html,
// heads.html and alignment.html; pictures and sheets are written beside them, and what was seen is printed as JSON.
const [library, program, folder] = process.argv.slice(2);
const { default: puppeteer } = await import(library);
const browser = await puppeteer.launch({ browser: "firefox", executablePath: program, headless: true });
const seen = { faults: [], chapters: [] };
const ACTIVE = ".rail [aria-current=true]";

async function open(name, act) {
  const tab = await browser.newPage();
  const fault = (text) => seen.faults.push(`${name}: ${text}`);
  tab.on("console", (message) => ["error", "warn"].includes(message.type()) && fault(message.text()));
  tab.on("pageerror", (error) => fault(error.message));
  await tab.setViewport({ width: 1280, height: 800 });
  await tab.goto(`file://${folder}/${name}.html`);
  await act(tab, (selector) => tab.$eval(selector, (element) => element.textContent));
  await tab.pdf({ path: `${folder}/${name}.pdf`, format: "A4" });
}

await open("story", async (tab, text) => {
  for (const name of await tab.$$eval(".rail a", (links) => links.map((link) => link.hash))) {
    await tab.click(`.rail a[href="${name}"]`);
    await tab.waitForFunction((query, hash) => document.querySelector(query)?.hash === hash, {}, ACTIVE, name);
    seen.chapters.push(name.slice(1));
    await tab.screenshot({ path: `${folder}/story-${name.slice(1)}.png` });
  }
  const headline = "#shares .sentence";
  seen.before = await text(headline);
  await tab.click("#shares button::-p-text(Do it)");
  seen.after = await text(headline);
  await tab.focus("#why input[type=range]");
  await tab.keyboard.press("ArrowRight");
  seen.words = await text("#why .sentence");
});
await open("heads", async (tab, text) => {
  await tab.focus("button[data-head][aria-pressed=true]");
  await tab.keyboard.press("ArrowRight");
  await tab.keyboard.press("Enter");
  seen.head = await text("h3");
});
await open("alignment", async () => {});
await browser.close();
console.log(JSON.stringify(seen));
