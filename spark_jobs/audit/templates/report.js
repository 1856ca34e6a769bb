// Search and filters of the findings. Without scripts the page shows every finding.
(() => {
  "use strict";
  const form = document.getElementById("filter");
  if (!form) return;
  const field = (name) => document.getElementById(name);
  const rows = [...document.querySelectorAll("#found > tbody")];
  const details = rows.map((row) => row.querySelector("details"));
  const texts = rows.map((row) => row.textContent.toLowerCase().replaceAll("\u202f", ""));

  const apply = () => {
    const words = field("words").value.toLowerCase().replaceAll("\u202f", "").split(/\s+/).filter(Boolean);
    const kind = field("class").value;
    const topic = field("topic").value;
    let shown = 0;
    rows.forEach((row, at) => {
      const wanted = (!kind || row.dataset.class === kind) && (!topic || row.dataset.topic === topic) &&
        words.every((word) => texts[at].includes(word));
      row.classList.toggle("filtered", !wanted);
      shown += wanted ? 1 : 0;
    });
    field("shown").textContent = `${shown} of ${rows.length}`;
    field("none").hidden = shown > 0;
  };

  const arrive = () => {
    const row = rows.find((one) => "#" + one.id === location.hash);
    if (!row) return;
    if (row.classList.contains("filtered")) {
      form.reset();
      apply();
    }
    row.querySelector("details").open = true;
    row.scrollIntoView({ block: "center" });
  };

  let before = [];
  addEventListener("beforeprint", () => {
    before = details.map((one) => one.open);
    details.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => details.forEach((one, at) => { one.open = before[at]; }));
  field("unfold").addEventListener("click", (event) => {
    const open = event.target.getAttribute("aria-expanded") !== "true";
    details.forEach((one) => { one.open = open; });
    event.target.setAttribute("aria-expanded", open);
    event.target.textContent = open ? "Close all" : "Open all";
  });
  form.addEventListener("input", apply);
  form.addEventListener("reset", () => setTimeout(apply)); // later: the fields still have their values here
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", arrive);
  form.hidden = false;
  apply();
  arrive();
})();
