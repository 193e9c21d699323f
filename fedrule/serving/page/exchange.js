// The home as text: to copy, to keep, to bring from elsewhere, and to ask about from a terminal.

import { hasToken } from "./api.js";
import { at, make, tell } from "./dom.js";
import { read, written } from "./home.js";

/** Show a home; `model` is the name that the command line is told. */
export function write(home, model) {
  at("json").value = written(home);
  tell(at("json-problem"), "");
  const url = new URL("v1/recommend", location.href).href;
  const token = hasToken() ? [' \\\n  -H "Authorization: Bearer $FEDRULE_TOKEN"'] : [];
  const lines = [`curl ${url} \\\n  -H 'Content-Type: application/json' -d @home.json`, ...token];
  const which = `# the first model answers, unless home.json also has "model": "${model}"`;
  at("curl").textContent = `${which}\n${lines.join("")}\npython -m fedrule recommend ${model}.safetensors home.json`;
}

/** Listen; `use` is given every home that is brought. */
export function exchange(use) {
  const bring = (text) => {
    try {
      use(read(text));
      tell(at("said"), "The home has been read.");
    } catch (error) {
      tell(at("json-problem"), error.message);
    }
  };
  at("json-use").addEventListener("click", () => bring(at("json").value));
  at("json-file").addEventListener("change", async ({ target }) => {
    const [file] = target.files;
    if (file) bring(await file.text());
    target.value = ""; // so that the same file can be brought again
  });
  at("json-copy").addEventListener("click", ({ target }) => copied(at("json").value, target));
  at("link-copy").addEventListener("click", ({ target }) => copied(location.href, target));
  at("json-save").addEventListener("click", () => {
    const url = URL.createObjectURL(new Blob([at("json").value], { type: "application/json" }));
    make("a", { href: url, download: "home.json" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  });
}

async function copied(text, button) {
  const before = (button.dataset.says ??= button.textContent);
  try {
    await navigator.clipboard.writeText(text); // browsers have no clipboard on addresses that are not secure
    button.textContent = "Copied";
  } catch {
    button.textContent = "Could not copy";
  }
  tell(at("said"), button.textContent);
  setTimeout(() => (button.textContent = before), 1500);
}
