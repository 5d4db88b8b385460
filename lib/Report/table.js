// Creates elements, formats numbers and names, and defines a table that folds, filters and sorts. The data is
// always set as text, never as markup.
"use strict";

/** Creates an element with attributes ("on..." are listeners) and children; strings become text. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined));
  return element;
}

// ---- words ---------------------------------------------------------------------------------------------------------

const formatInteger = number => Math.round(number).toLocaleString("en-US");

/** Formats a number with about three digits and one of `units`. Each unit is `base` times the previous one. */
function scale(number, base, units) {
  let unit = 0;
  while (Math.abs(number) >= base && unit + 1 < units.length) {
    number /= base;
    unit += 1;
  }
  const digits = unit === 0 || number >= 100 ? 0 : number >= 10 ? 1 : 2;
  return `${Number(number.toFixed(digits)).toLocaleString("en-US")} ${units[unit]}`.trim();
}
const formatBytes = bytes => scale(bytes, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
const formatFlops = flops => scale(flops, 1000, ["", "k", "M", "G", "T", "P", "E"]);
const formatShape = shape => (shape.length ? shape.join(" × ") : "scalar");
const countOf = (number, one, many) => `${formatInteger(number)} ${number === 1 ? one : many}`;

/** Replaces list indices in a module path by stars: blocks.3.norm (a.py:7) becomes blocks.*.norm (a.py:7). */
const foldIndices = text => text.replace(/(^|\.)\d+(?=[.\s),]|$)/g, "$1*");

/** Groups members by key, in order of first appearance. */
function groupBy(members, key) {
  const groups = new Map();
  for (const member of members) {
    const text = key(member);
    if (!groups.has(text)) groups.set(text, []);
    groups.get(text).push(member);
  }
  return [...groups.values()];
}

const sum = (members, value) => members.reduce((total, member) => total + value(member), 0);

// ---- tables --------------------------------------------------------------------------------------------------------

const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));

/** Makes a cell of `column`. The first column is the header of the row. Narrow screens show the content next to the title. */
function makeCell(column, isFirst, content) {
  const cell = make(isFirst ? "th" : "td", { class: column.kind, scope: isFirst ? "row" : null, "data-label": column.title });
  const inner = make("div", {}, content);
  if (inner.hasChildNodes() && inner.textContent !== "") cell.append(inner);
  return cell;
}

/** Makes a table with one row per item. Columns: {title, kind, show(row)}. */
function makePlainTable(label, columns, rows) {
  const head = make("tr", {}, columns.map(column => make("th", { scope: "col", class: column.kind }, column.title)));
  const body = rows.map(row => make("tr", {}, columns.map((column, i) => makeCell(column, i === 0, column.show(row)))));
  return make("table", {}, make("caption", { class: "hidden" }, label), make("thead", {}, head), make("tbody", {}, body));
}

/**
 * A table with one row per group. A group of several members unfolds to one row per member. If `detail` is given, a
 * group unfolds to the element that `detail(members)` returns, or does not unfold if `detail(members, true)` is false.
 *   columns  {title, kind, value(members): sort key, show(members): text or elements of a cell}
 *   text     the text of a member that the filter searches
 *   noun     [singular, plural] of a member
 */
class FoldTable {
  constructor({ label, columns, groups, text, noun, detail }) {
    Object.assign(this, { label, columns, groups, text, noun, detail });
    this.open = new Set();
    this.sorted = null;
    this.descending = false;
    this.words = [];
    this.total = sum(groups, group => group.length);
    this.element = make("div", {}, this.makeTools(), make("div", { class: "frame" }, this.makeTable()));
    this.draw();
  }

  makeTools() {
    this.count = make("span", { class: "count", role: "status" });
    const filter = make("input", {
      type: "search", placeholder: "Filter", "aria-label": `Filter ${this.label}`, autocomplete: "off", spellcheck: "false",
      oninput: event => {
        this.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
        this.draw();
      },
    });
    this.select = make("select", { class: "narrow", "aria-label": `Sort ${this.label}`, onchange: event => this.sortBy(event.target.value === "" ? null : Number(event.target.value), false) },
      make("option", { value: "" }, "In the model's order"), this.columns.map((column, i) => make("option", { value: i }, `By ${column.title.toLowerCase()}`)));
    this.all = make("button", { type: "button", onclick: () => this.toggleAll() });
    return make("div", { class: "tools" }, filter, this.select, this.all, this.count);
  }

  makeTable() {
    this.heads = this.columns.map((column, i) => make("th", { scope: "col", class: column.kind },
      make("button", { type: "button", onclick: () => this.clickHead(i) }, column.title)));
    this.body = make("tbody");
    return make("table", {}, make("caption", { class: "hidden" }, this.label), make("thead", {}, make("tr", {}, this.heads)), this.body);
  }

  /** Sorts by a column: numbers descending first, text ascending first. The second click reverses the order, the third restores the model's order. */
  clickHead(i) {
    if (this.sorted !== i) this.sortBy(i, Boolean(this.columns[i].kind === "number"));
    else if (this.descending === (this.columns[i].kind === "number")) this.sortBy(i, !this.descending);
    else this.sortBy(null, false);
  }

  sortBy(i, descending) {
    this.sorted = i;
    this.descending = descending;
    this.heads.forEach((head, h) => {
      if (h === i) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.select.value = i === null ? "" : String(i);
    this.draw();
  }

  sort(lists) {
    if (this.sorted === null) return lists;
    const { value } = this.columns[this.sorted];
    const sign = this.descending ? -1 : 1;
    return [...lists].sort((a, b) => sign * compare(value(a.members), value(b.members)));
  }

  isFoldable(members) {
    return this.detail ? Boolean(this.detail(members, true)) : members.length > 1;
  }

  toggleAll() {
    const foldable = this.groups.filter(group => this.isFoldable(group));
    if (this.open.size) this.open.clear();
    else foldable.forEach(group => this.open.add(group));
    this.draw();
  }

  draw() {
    const matches = member => this.words.every(word => this.text(member).toLowerCase().includes(word));
    const shown = this.groups.map(group => ({ group, members: this.words.length ? group.filter(matches) : group })).filter(({ members }) => members.length);
    const rows = this.sort(shown).flatMap(({ group, members }) => this.drawGroup(group, members));
    if (!rows.length) rows.push(make("tr", {}, make("td", { class: "empty", colspan: this.columns.length }, this.total ? "Nothing matches." : "None.")));
    this.body.replaceChildren(...rows);
    const count = sum(shown, ({ members }) => members.length);
    this.count.textContent = count === this.total ? countOf(count, ...this.noun) : `${formatInteger(count)} of ${countOf(this.total, ...this.noun)}`;
    this.all.hidden = !this.groups.some(group => this.isFoldable(group));
    this.all.textContent = this.open.size ? "Fold all" : "Unfold all";
  }

  drawGroup(group, members) {
    const foldable = this.isFoldable(members);
    const isOpen = foldable && this.open.has(group);
    const rows = [this.drawRow(members, foldable ? content => this.makeFold(group, isOpen, content) : content => make("div", { class: "plain" }, content))];
    if (!isOpen) return rows;
    if (this.detail) return [...rows, make("tr", { class: "detail" }, make("td", { colspan: this.columns.length }, this.detail(members)))];
    const single = this.sort(members.map(member => ({ members: [member] })));
    return [...rows, ...single.map(({ members: [member] }) => this.drawRow([member], content => content, "member"))];
  }

  drawRow(members, wrap, kind) {
    return make("tr", { class: kind }, this.columns.map((column, i) => makeCell(column, i === 0, i === 0 ? wrap(column.show(members)) : column.show(members))));
  }

  makeFold(group, isOpen, content) {
    return make("button", {
      type: "button", class: "fold", "aria-expanded": String(isOpen),
      onclick: () => {
        if (isOpen) this.open.delete(group);
        else this.open.add(group);
        const row = [...this.body.querySelectorAll(".fold")].indexOf(document.activeElement);
        this.draw();
        if (row >= 0) this.body.querySelectorAll(".fold")[row]?.focus();
      },
    }, content);
  }
}
