/* The page works without this.  With it the content is fetched again every few seconds, unless somebody is at a form,
   has chosen something, reads a text that can be scrolled, or looks elsewhere. */
'use strict';
(() => {
  const busy = (main) =>
    document.hidden || main.contains(document.activeElement) && document.activeElement !== main ||
    main.querySelector('input[type=checkbox]:checked') !== null || String(getSelection()) !== '';

  const refresh = async () => {
    const main = document.getElementById('main');
    if (!main || !main.dataset.live || busy(main)) return;
    try {
      const reply = await fetch(location.href, { headers: { Accept: 'text/html' } });
      if (!reply.ok) return;
      const fresh = new DOMParser().parseFromString(await reply.text(), 'text/html').getElementById('main');
      if (fresh && !busy(main) && fresh.innerHTML !== main.innerHTML) main.replaceWith(fresh);
    } catch { /* the server is away: what is shown stays */ }
  };
  const main = document.getElementById('main');
  if (main && main.dataset.live) setInterval(refresh, 1000 * Number(main.dataset.live));

  document.addEventListener('submit', (event) => {
    const word = event.submitter && event.submitter.value;
    if (word === 'delete' && !confirm('Delete? What runs is stopped; the history stays.')) event.preventDefault();
  });
})();
