// The format of saved races, as the page gets it from Python.

import { execFileSync } from "node:child_process";

const ROOT = new URL("../../", import.meta.url);

export function formatOfPython() {
  const code = "import json; from ui.browser.trace_format import trace_format; print(json.dumps(trace_format()))";
  return JSON.parse(execFileSync(process.env.ADED_PYTHON ?? "python3", ["-c", code], { cwd: ROOT, encoding: "utf-8" }));
}
