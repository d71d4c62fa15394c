// A table of any length: sorted by its heads, searched, shown a page at a time; a row may open in place.
// column: {title, key(row) for sorting, cell(row), kind: "text" | "number", about}

// first: how rows are ordered before a head is pressed; detail(row): what is shown below an opened row
function sortedTable({ caption, columns, rows, page = 25, sort, first, search, onrow, rowClass, detail }) {
  const view = { sort: sort || null, page: 0, rows, order: rows, shown: [] };
  const body = h("tbody"), more = h("div", { class: "pager" });
  const heads = columns.map((column, at) => headOf(column, at, turn));
  const table = h("table", null, h("caption", { class: "hidden" }, caption),
    h("thead", null, h("tr", null, heads)), body);

  function turn(at) {
    const way = columns[at].kind === "text" ? 1 : -1;
    const again = view.sort && view.sort.at === at;
    view.sort = { at, way: again ? -view.sort.way : way };
    arrange();
  }

  function arrange() {
    const wanted = view.text ? view.rows.filter((row) => search(row).toLowerCase().includes(view.text)) : view.rows;
    const order = view.sort ? comparison(columns[view.sort.at].key, view.sort.way) : first;
    view.order = order ? wanted.slice().sort(order) : wanted;
    heads.forEach((head, at) => {
      const way = view.sort && view.sort.at === at ? view.sort.way : 0;
      if (columns[at].key) head.setAttribute("aria-sort", way > 0 ? "ascending" : way < 0 ? "descending" : "none");
    });
    view.page = 0;
    draw();
  }

  const cells = (row) => columns.map((column, at) => h(at ? "td" : "th",
    { class: column.kind === "text" ? null : "num", scope: at ? null : "row" }, column.cell(row)));

  // whoever had the focus in a row has it again once `work` has drawn that row anew
  function keepingFocus(work) {
    const held = view.shown.find(({ line }) => line.contains(document.activeElement));
    work();
    const again = held && view.shown.find(({ row }) => row === held.row);
    if (again) again.line.querySelector("button")?.focus({ preventScroll: true });
  }

  function draw() {
    keepingFocus(() => {
      const shown = view.order.slice(view.page * page, (view.page + 1) * page);
      view.shown = shown.map((row) => ({ row, line: h("tr", { class: rowClass ? rowClass(row) : null,
        onclick: onrow ? () => onrow(row) : null }, cells(row)) }));
      body.replaceChildren(...view.shown.flatMap(({ row, line }) => [line, ...opened(row)]));
      if (!shown.length) body.append(h("tr", null, h("td", { colspan: columns.length }, "Nothing to show.")));
      more.replaceChildren(...pager(view, page, (to) => {
        view.page = to;
        draw();
      }));
    });
  }

  function opened(row) {
    const below = detail ? detail(row) : null;
    return below ? [h("tr", { class: "detail" }, h("td", { colspan: columns.length }, below))] : [];
  }

  // new figures in the same lines; what is opened stays as it is
  function refresh() {
    keepingFocus(() => view.shown.forEach(({ row, line }) => line.replaceChildren(...cells(row))));
  }

  // turns to the page that holds a row, whatever was searched for; its line
  function show(row) {
    if (!view.order.includes(row)) {
      view.text = box.value = "";
      arrange();
    }
    view.page = Math.floor(view.order.indexOf(row) / page);
    draw();
    return lineOf(row);
  }

  function lineOf(row) {
    return view.shown.find((each) => each.row === row)?.line;
  }

  const box = search ? h("input", { type: "search", class: "search", placeholder: "Search",
    "aria-label": `Search: ${caption}`, oninput: (event) => {
      view.text = event.target.value.trim().toLowerCase();
      arrange();
    } }) : null;
  arrange();
  const scroll = h("div", { class: columns.length > 3 ? "scroll many" : "scroll", tabindex: "0", role: "region", "aria-label": caption }, table);
  const element = h("div", { class: "tabled" }, box, scroll, more);
  const replace = (other) => {
    const at = view.page;
    view.rows = other;
    arrange();
    view.page = Math.min(at, Math.max(0, Math.ceil(view.order.length / page) - 1));
    draw();
  };
  const reorder = () => {
    view.sort = null;
    arrange();
  };
  return { element, scroll, draw, refresh, show, lineOf, replace, reorder };
}

function headOf(column, at, turn) {
  const kind = column.kind === "text" ? null : "num";
  if (!column.key) return h("th", { scope: "col", class: kind, title: column.about }, column.title);
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
