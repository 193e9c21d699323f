// The home as JSON: copy, download, upload, and commands for a terminal.

import { hasToken } from "./api.js";
import { at, make, tell } from "./dom.js";
import { read, written } from "./home.js";

/** Show a home as JSON, and commands that use `model`. */
export function exportHome(home, model) {
  at("json").value = written(home);
  tell(at("json-problem"), "");
  const url = new URL("v1/recommend", location.href).href;
  const token = hasToken() ? [' \\\n  -H "Authorization: Bearer $FEDRULE_TOKEN"'] : [];
  const lines = [`curl ${url} \\\n  -H 'Content-Type: application/json' -d @home.json`, ...token];
  const which = `# uses the first model unless home.json contains "model": "${model}"`;
  at("curl").textContent = `${which}\n${lines.join("")}\npython -m fedrule recommend ${model}.safetensors home.json`;
}

/** Set up the buttons; `use` is called with every imported home. */
export function listen(use) {
  const load = (text) => {
    try {
      use(read(text));
      tell(at("status"), "Home loaded.");
    } catch (error) {
      tell(at("json-problem"), error.message);
    }
  };
  at("json-use").addEventListener("click", () => load(at("json").value));
  at("json-file").addEventListener("change", async ({ target }) => {
    const [file] = target.files;
    if (file) load(await file.text());
    target.value = ""; // so that the same file can be uploaded again
  });
  at("json-copy").addEventListener("click", ({ target }) => copy(at("json").value, target));
  at("link-copy").addEventListener("click", ({ target }) => copy(location.href, target));
  at("json-save").addEventListener("click", () => {
    const url = URL.createObjectURL(new Blob([at("json").value], { type: "application/json" }));
    make("a", { href: url, download: "home.json" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  });
}

async function copy(text, button) {
  const before = (button.dataset.says ??= button.textContent);
  try {
    await navigator.clipboard.writeText(text); // only available on secure addresses
    button.textContent = "Copied";
  } catch {
    button.textContent = "Could not copy";
  }
  tell(at("status"), button.textContent);
  setTimeout(() => (button.textContent = before), 1500);
}
