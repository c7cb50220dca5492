// The theme's toggles of the navigation have a symbol alone; give them a name.
document.addEventListener("DOMContentLoaded", () => {
  for (const toggle of document.querySelectorAll("summary:not([aria-label])"))
    if (!toggle.textContent.trim()) toggle.ariaLabel = "Show or hide the pages below";
});
