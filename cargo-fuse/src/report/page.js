"use strict";
// An edge and its decision are chosen together, from either side.
function mark(id) {
  for (const edge of document.querySelectorAll(".edge")) edge.classList.toggle("chosen", edge.dataset.decision === id);
}
function choose(id) {
  const decision = document.getElementById(id);
  if (!decision) return;
  decision.open = true;
  mark(id);
  decision.scrollIntoView({ block: "nearest" });
}
for (const edge of document.querySelectorAll(".edge[data-decision]")) {
  edge.addEventListener("click", () => choose(edge.dataset.decision));
  edge.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(edge.dataset.decision);
    }
  });
}
for (const decision of document.querySelectorAll("details")) {
  decision.addEventListener("toggle", () => { if (decision.open) mark(decision.id); });
}
for (const rooflines of document.querySelectorAll(".rooflines")) {
  const select = rooflines.querySelector("select");
  select.addEventListener("change", () => {
    for (const one of rooflines.querySelectorAll(".roofline")) one.hidden = one.dataset.target !== select.value;
  });
}
// A link to a decision opens it.
function follow() { choose(decodeURIComponent(location.hash.slice(1))); }
window.addEventListener("hashchange", follow);
follow();
