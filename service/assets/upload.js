"use strict";
// What a browser alone can tell of a file: that it is too large, before it is sent, and how much of it has been sent.
const form = document.getElementById("upload");
const file = document.getElementById("file");
const sent = document.getElementById("sent");
const waiting = form.querySelector(".waiting");

const show = (text) => {
  const hint = document.getElementById("file-hint");
  hint.className = "error";
  hint.textContent = text;
  file.setAttribute("aria-invalid", "true");
  file.focus();
};

form.addEventListener("htmx:beforeRequest", (event) => {
  const most = Number(form.dataset.maxBytes);
  if (file.files.length && file.files[0].size > most) {
    event.preventDefault();
    show(`the file may have at most ${most.toLocaleString("en")} bytes, which is the limit of this service`);
    return;
  }
  file.removeAttribute("aria-invalid");
  sent.value = 0;
  sent.hidden = false;
  waiting.textContent = "Sending the file";
});
form.addEventListener("htmx:xhr:progress", (event) => {
  if (event.detail.lengthComputable) {
    sent.value = event.detail.loaded / event.detail.total;
    if (sent.value === 1) {
      waiting.textContent = "Reading and measuring it";
    }
  }
});
form.addEventListener("htmx:sendError", () => show("the file could not be sent: the service cannot be reached"));
form.addEventListener("htmx:afterRequest", (event) => {
  sent.hidden = true;
  waiting.textContent = event.detail.successful ? "Opening the report" : "";
});
// Until it has settled, what was swapped in has the attributes of what it took the place of.
document.addEventListener("htmx:afterSettle", () => {
  if (document.getElementById("file-hint").classList.contains("error")) {
    file.setAttribute("aria-invalid", "true");
  }
});
