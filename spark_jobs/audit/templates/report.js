// Searches the findings. Without scripts the page shows all of them.
"use strict";
const words = document.getElementById("words");
const rows = [...document.querySelectorAll("#found > tbody")];
const plain = (text) => text.toLowerCase().replaceAll("\u202f", "");
const texts = rows.map((row) => plain(row.textContent));

const search = () => {
  const wanted = plain(words.value).split(/\s+/);
  rows.forEach((row, at) => { row.hidden = !wanted.every((word) => texts[at].includes(word)); });
  document.getElementById("shown").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
};

words.addEventListener("input", search);
addEventListener("click", (event) => { // a link may lead to what is not shown, and to the same place once more
  const link = event.target.closest("a[href^='#finding-']");
  if (!link) return;
  words.value = "";
  search();
  document.querySelector(link.getAttribute("href"))?.scrollIntoView({ block: "center" });
});
document.getElementById("search").hidden = false;
search();
