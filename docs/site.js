// Wide tables and code scroll, so the keyboard has to reach them. The theme puts tables into boxes later.
function reach() {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) box.tabIndex = 0;
}
new MutationObserver(reach).observe(document.body, { childList: true, subtree: true });
reach();
