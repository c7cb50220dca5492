// Swagger UI for the OpenAPI document of this service.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  displayRequestDuration: true,
  validatorUrl: null,
  plugins: [() => ({
    components: {
      // A link inside the button that opens a call cannot be reached with a keyboard. The page's address works without it.
      DeepLink: ({text}) => text,
      // There is one server, this one: a select box without a label would be left.
      ServersContainer: () => null,
    },
  })],
});
// Names for the select boxes that have none, and a way to reach scrolling examples by keyboard.
new MutationObserver(() => {
  for (const select of document.querySelectorAll("select:not([aria-label])"))
    select.ariaLabel = select.closest("[data-param-name]")?.dataset.paramName ?? "media type or example";
  for (const example of document.querySelectorAll("pre:not([tabindex]), .highlight-code:not([tabindex])"))
    example.tabIndex = 0;
}).observe(document.body, {childList: true, subtree: true});
