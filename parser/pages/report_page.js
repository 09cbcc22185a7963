/** Draws the trees of a report in their places, each when it comes near to what is seen. */
(() => {
  'use strict';

  const trees = JSON.parse(document.getElementById('trees').textContent);

  function draw(place) {
    const sentence = trees[place.dataset.trees][Number(place.dataset.number)];
    place.replaceChildren(treeDrawing.drawTree(sentence));
  }

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting)) {
      seen.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: '600px' });

  document.querySelectorAll('.tree-place').forEach((place) => {
    place.tabIndex = 0; // so that a wide tree can be scrolled with keys
    seen.observe(place);
  });

  window.addEventListener('beforeprint', () => document.querySelectorAll('.tree-place').forEach(draw));
})();
