// Embedding: one panel at one step, for a frame in slides or articles, and the code of such a frame.

import { EMBEDDED, el, setText } from "../core/dom.js";
import { emit, on } from "../core/events.js";
import { onLanguage, say } from "../core/words.js";

const PATH = "embed"; // of the page that any site may show in a frame
const SIZE = { width: 960, height: 480 };

// Whether this page is shown as one panel: at its own path, or on a page without a server by its link.
export function isEmbedded({ pathname }, link) {
  return pathname.endsWith(`/${PATH}`) || link.hide === "page";
}

// Hides all but the panel, and messages about the link (`note`); a link opens the whole page. `text` returns the link to the view on screen.
export function createEmbedded(text, note) {
  const link = el("a", { class: "ax ax-embed-link", target: "_blank", rel: "noopener" });
  document.body.classList.add(EMBEDDED);
  document.body.append(link);
  document.body.prepend(el("div", { class: "ax" }, note));
  const render = () => {
    setText(link, say("embed.whole"));
    link.href = text();
  };
  onLanguage(render);
  on("view", () => setTimeout(render));
}

// The entry of the menu that copies the code of a frame; `address` returns the link to the view, `server` whether there is a server; `copied` is called when the
// code was copied, `byHand` with the code if the browser does not allow that.
export function createEmbedCode(button, address, server, { copied, byHand }) {
  button.addEventListener("click", async () => {
    const url = new URL(address());
    button.closest("details").open = false;
    if (server()) {
      url.pathname = new URL(PATH, document.baseURI).pathname;
      const answer = await fetch(url.pathname, { method: "HEAD" }).catch(() => null);
      if (!answer?.ok) return emit("linkErrors", [["embed.off", {}]]);
    } else {
      const view = new URLSearchParams(url.hash.slice(1));
      view.set("hide", "page");
      url.hash = view.toString();
    }
    const code = el("iframe", { src: url.href, title: "ADED Explorer", width: SIZE.width, height: SIZE.height, loading: "lazy", style: "border: 0" }).outerHTML;
    try {
      await navigator.clipboard.writeText(code);
      copied();
    } catch {
      byHand(code);
    }
  });
}
