// Builds the page into the directory that is the argument. Equal sources and an equal lockfile give equal bytes.
import * as esbuild from "esbuild";
import { copyFile, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

// import.meta.dirname isn't there before Node 20, and Debian 12 has 18.
const here = dirname(fileURLToPath(import.meta.url));

// The part of @bufbuild/protobuf that it takes from Protocol Buffers.
const bsd = `
Parts are of Protocol Buffers, Copyright 2008 Google Inc. All rights reserved.

Redistribution and use in source and binary forms, with or without modification, are permitted provided that the
following conditions are met:

    * Redistributions of source code must retain the above copyright notice, this list of conditions and the following
disclaimer.
    * Redistributions in binary form must reproduce the above copyright notice, this list of conditions and the following
disclaimer in the documentation and/or other materials provided with the distribution.
    * Neither the name of Google Inc. nor the names of its contributors may be used to endorse or promote products derived
from this software without specific prior written permission.

THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND ANY EXPRESS OR IMPLIED WARRANTIES,
INCLUDING, BUT NOT LIMITED TO, THE IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE
DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT OWNER OR CONTRIBUTORS BE LIABLE FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL,
EXEMPLARY, OR CONSEQUENTIAL DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR SERVICES; LOSS OF
USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT
LIABILITY, OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE OF THIS SOFTWARE, EVEN IF ADVISED
OF THE POSSIBILITY OF SUCH DAMAGE.
`;
const out = process.argv[2];
if (!out) throw new Error("usage: node build.mjs DIRECTORY");

// xterm.js sets styles in two ways that the Content-Security-Policy of the page forbids: by <style> elements and by the
// attribute style. Both become calls of src/term/styles.ts, which uses what the policy allows. A version of xterm.js with
// another number of such places fails the build.
const places = { 'createElement("style")': 3, 'setAttribute("style",': 1 };
const xterm = {
  name: "xterm without inline styles",
  setup(build) {
    build.onLoad({ filter: /@xterm\/xterm\/lib\/xterm\.mjs$/ }, async ({ path }) => {
      let code = await readFile(path, "utf8");
      for (const [place, count] of Object.entries(places)) {
        const found = code.split(place).length - 1;
        if (found !== count) throw new Error(`xterm.mjs has ${found} times ${place}, not ${count}`);
      }
      code = code.replaceAll(/[\w.]+(?:\(\))?\.createElement\("style"\)/g, "podstreamStyleElement()");
      code = code.replaceAll(/(\w+)\.setAttribute\("style",/g, "podstreamStyle($1,");
      for (const place of Object.keys(places)) {
        if (code.includes(place)) throw new Error(`xterm.mjs: ${place} is still there`);
      }
      const styles = join(here, "src/term/styles.ts");
      code = `import { podstreamStyleElement, podstreamStyle } from ${JSON.stringify(styles)};\n${code}`;
      return { contents: code, loader: "js" };
    });
  },
};

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
const result = await esbuild.build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx" },
  outdir: out,
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["es2022", "chrome120", "firefox121", "safari17.2"],
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  legalComments: "none",
  charset: "utf8",
  chunkNames: "[name]",
  assetNames: "[name]",
  define: { "process.env.NODE_ENV": '"production"' },
  plugins: [xterm],
  metafile: true,
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) await copyFile(join(here, "src", name), join(out, name));

// The licences of all packages of which something is in the bundle.
const packages = new Set();
for (const output of Object.values(result.metafile.outputs)) {
  for (const [input, { bytesInOutput }] of Object.entries(output.inputs)) {
    const found = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found && bytesInOutput > 0) packages.add(found[1]);
  }
}
const apache = await readFile(join(here, "../../../../LICENSE"), "utf8");
let text = "The page of podctl web contains parts of these packages.\n";
let apacheNeeded = false;
for (const name of [...packages].sort()) {
  const dir = join(here, "node_modules", name);
  const about = JSON.parse(await readFile(join(dir, "package.json"), "utf8"));
  const files = (await readdir(dir)).filter((file) => /^(licen[cs]e|notice)/i.test(file)).sort();
  text += `\n${"=".repeat(80)}\n${name} ${about.version}, licence ${about.license}\n${"=".repeat(80)}\n\n`;
  if (files.length === 0) {
    if (!about.license.includes("Apache-2.0")) throw new Error(`${name} has no file with its licence`);
    text += `Source: ${about.repository?.url ?? ""}\nThe text of the Apache License 2.0 is at the end.\n`;
    if (about.license.includes("BSD-3-Clause")) text += bsd;
    apacheNeeded = true;
  }
  for (const file of files) text += (await readFile(join(dir, file), "utf8")).trimEnd() + "\n";
}
if (apacheNeeded) text += `\n${"=".repeat(80)}\n\n${apache}`;
await writeFile(join(out, "licenses.txt"), text);
