"use strict";
// Checks the size of a file before it is sent, and shows the upload progress.
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
    show(`The file may have at most ${most.toLocaleString("en")} bytes, the limit of this service.`);
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
      waiting.textContent = "Evaluating the file";
    }
  }
});
form.addEventListener("htmx:sendError", () => show("The file could not be sent: the service cannot be reached."));
form.addEventListener("htmx:afterRequest", (event) => {
  sent.hidden = true;
  waiting.textContent = event.detail.successful ? "Opening the report" : "";
});
// Before htmx has settled, replaced elements still have the attributes of the elements that they replace.
document.addEventListener("htmx:afterSettle", () => {
  if (document.getElementById("file-hint").classList.contains("error")) {
    file.setAttribute("aria-invalid", "true");
  }
});
