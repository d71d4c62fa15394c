// A table of any length: sorted by its heads, searched, shown a page at a time.
// column: {title, key(row) for sorting, cell(row), kind: "text" | "number", about}

function sortedTable({ caption, columns, rows, page = 25, sort, search, onrow, rowClass }) {
  const view = { sort: sort || null, page: 0, rows, order: rows };
  const body = h("tbody"), more = h("div", { class: "pager" });
  const heads = columns.map((column, at) => headOf(column, at, turn));
  const table = h("table", null, h("caption", { class: "hidden" }, caption),
    h("thead", null, h("tr", null, heads)), body);

  function turn(at) {
    const first = columns[at].kind === "text" ? 1 : -1;
    const again = view.sort && view.sort.at === at;
    view.sort = { at, way: again ? -view.sort.way : first };
    arrange();
  }

  function arrange() {
    const wanted = view.text ? view.rows.filter((row) => search(row).toLowerCase().includes(view.text)) : view.rows;
    view.order = view.sort ? wanted.slice().sort(comparison(columns[view.sort.at].key, view.sort.way)) : wanted;
    heads.forEach((head, at) => {
      const way = view.sort && view.sort.at === at ? view.sort.way : 0;
      if (columns[at].key) head.setAttribute("aria-sort", way > 0 ? "ascending" : way < 0 ? "descending" : "none");
    });
    view.page = 0;
    draw();
  }

  function draw() {
    const focused = [...body.querySelectorAll("button")].indexOf(document.activeElement);
    const shown = view.order.slice(view.page * page, (view.page + 1) * page);
    body.replaceChildren(...shown.map((row) =>
      h("tr", { class: rowClass ? rowClass(row) : null, onclick: onrow ? () => onrow(row) : null },
        columns.map((column, at) => h(at ? "td" : "th",
          { class: column.kind === "text" ? null : "num", scope: at ? null : "row" }, column.cell(row))))));
    if (focused >= 0) body.querySelectorAll("button")[focused]?.focus({ preventScroll: true });
    if (!shown.length) body.append(h("tr", null, h("td", { colspan: columns.length }, "Nothing to show.")));
    more.replaceChildren(...pager(view, page, (to) => {
      view.page = to;
      draw();
    }));
  }

  const box = search ? h("input", { type: "search", class: "search", placeholder: "Search",
    "aria-label": `Search: ${caption}`, oninput: (event) => {
      view.text = event.target.value.trim().toLowerCase();
      arrange();
    } }) : null;
  arrange();
  const element = h("div", { class: "tabled" }, box,
    h("div", { class: columns.length > 3 ? "scroll many" : "scroll", tabindex: "0", role: "region", "aria-label": caption }, table), more);
  const replace = (other) => {
    view.rows = other;
    arrange();
  };
  return { element, draw, arrange, replace };
}

function headOf(column, at, turn) {
  const kind = column.kind === "text" ? null : "num";
  if (!column.key) return h("th", { scope: "col", class: kind }, column.title);
  return h("th", { scope: "col", class: kind, title: column.about },
    h("button", { type: "button", class: "sort", onclick: () => turn(at) }, column.title));
}

// what has no value comes last either way
function comparison(key, way) {
  const missing = (value) => value === null || value === undefined || Number.isNaN(value);
  return (one, other) => {
    const a = key(one), b = key(other);
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    return typeof a === "string" ? way * a.localeCompare(b) : way * (a - b);
  };
}

function pager(view, page, go) {
  const pages = Math.ceil(view.order.length / page);
  if (pages < 2) return [];
  const first = view.page * page + 1, last = Math.min(view.order.length, first + page - 1);
  const step = (text, to) => h("button", { type: "button", disabled: to < 0 || to >= pages, onclick: () => go(to) }, text);
  return [step("Previous", view.page - 1),
    h("span", { "aria-live": "polite" }, `${whole(first)}–${whole(last)} of ${whole(view.order.length)}`),
    step("Next", view.page + 1)];
}
