"use strict";
// Buttons that copy the text of an element; without scripts they stay hidden.
for (const button of document.querySelectorAll("button[data-copy]")) {
  const name = button.innerHTML;
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
    button.addEventListener("blur", () => { button.innerHTML = name; }, {once: true});
  });
}
