// The form of a page: a text, examples to choose, and what comes out.

const { regard } = window;
const part = (id) => document.getElementById(id);
const [form, text, go, examples, status] = ["form", "text", "go", "examples", "status"].map(part);

// Numbers as the bytes of a typed array, as the data of a view are in a file.
export function packed(numbers, shape) {
  const bytes = new Uint8Array(numbers.buffer);
  return { dtype: "float32", shape, base64: btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")) };
}

// Load a model; then answer each text, and the first of the examples. What the answer returns is the status.
export function start(load, answer) {
  begin(load, answer).catch((error) => (status.textContent = `The model can't be loaded: ${error.message}`));
}

async function begin(load, answer) {
  const model = await load(document.baseURI);
  const lines = (await (await fetch("examples.tsv")).text()).split("\n").filter(Boolean);
  const show = async () => {
    go.disabled = true;
    try {
      status.textContent = await answer(model, text.value);
    } catch (error) {
      status.textContent = `This text can't be read: ${error.message}`;
    }
    go.disabled = false;
  };
  const choose = (example) => {
    text.value = example;
    return show();
  };
  for (const example of lines.map((line) => line.split("\t")[0])) {
    const onclick = () => choose(example);
    examples.append(regard.element("button", { type: "button", class: "quiet", onclick }, regard.label(example)));
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    show();
  });
  text.disabled = go.disabled = false;
  status.textContent = "";
  await choose(lines[0].split("\t")[0]);
}
