"use strict";
// Adds the CSRF token to every htmx request; without scripts, a hidden field of the form contains it.
document.addEventListener("htmx:configRequest", (event) => {
  const token = document.querySelector('meta[name="csrf-token"]');
  if (token) {
    event.detail.headers["X-CSRF-Token"] = token.content;
  }
});
