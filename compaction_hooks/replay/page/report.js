"use strict";
// Texts of a conversation are only ever set as textContent. The policy of the page would refuse anything that makes markup of them.

const ROW = 56; // Height of a row in pixels, as in the style sheet: with equal rows, a list needs no element for those out of sight.
const SPARE = 6; // Rows drawn above and below those in sight.
const START_CHARS = 240; // Of a message's text, as much as a row may show.
const READ_CHARS = 100_000; // Laying out longer texts would hold up the page.

// -- what a call sent

/** Returns the rows of the list before a call, and those of the view that was sent. */
function lookAt(conversation, call) {
  const end = conversation.calls[call - 1];
  const view = conversation.views.findLast((each) => each.call <= call);
  const states = new Array(end).fill("sent");
  const sent = [];
  const keep = (first, last) => {
    for (let index = first; index < last; index += 1) sent.push(own(conversation, index, states[index]));
  };
  if (view) {
    const seen = conversation.calls[view.call - 1];
    for (let index = 0; index < seen; index += 1) states[index] = index < view.covered ? "summarized" : "left out";
    for (const entry of view.sent) {
      if (Array.isArray(entry)) {
        for (let index = entry[0]; index < entry[1]; index += 1) states[index] = stateOfKept(conversation, view, index);
        keep(...entry);
      } else {
        if (entry.index !== null) states[entry.index] = entry.state;
        sent.push(entry);
      }
    }
    keep(seen, end);
  } else {
    keep(0, end);
  }
  const whole = states.map((state, index) => own(conversation, index, state));
  if (conversation.system) {
    const system = { index: -1, state: "sent", message: conversation.system };
    whole.unshift(system);
    sent.unshift(system);
  }
  return { whole, sent, view };
}

function own(conversation, index, state) {
  return { index, state, message: conversation.messages[index] };
}

function stateOfKept(conversation, view, index) {
  return index < view.covered && conversation.messages[index].role !== "system" ? "pinned" : "sent";
}

/** Returns the row of the other list that a row belongs to: the same message, else the summary. */
function findOther(row, rows) {
  const same = rows.findIndex((other) => other.index === row.index && other.index !== null);
  return same < 0 && row.state === "summarized" ? rows.findIndex((other) => other.state === "summary") : same;
}

// -- words

function short(tokens) {
  if (tokens < 1000) return String(tokens);
  const [value, unit] = tokens < 999_500 ? [tokens / 1e3, "k"] : [tokens / 1e6, "M"];
  return (value >= 99.95 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, "")) + unit;
}

function nameOf(row) {
  if (row.index === null) return "";
  return row.index < 0 ? "system prompt" : `${row.index + 1}`;
}

function stateName(row) {
  return row.state === "sent" ? "sent as it is" : row.state;
}

function headOf(part) {
  if (part.kind === "text") return "";
  return [part.kind, part.name].filter(Boolean).join(" ");
}

function startOf(message) {
  // Without its text, a part is told by its kind.
  const parts = message.parts.map((part) => {
    return part.text ? [headOf(part), part.text.slice(0, START_CHARS)].filter(Boolean).join(": ") : headOf(part) || part.kind;
  });
  return parts.join("  ").slice(0, START_CHARS).replace(/\s+/g, " ");
}

function wholeText(message) {
  const parts = message.parts.map((part) => {
    const head = headOf(part);
    return head ? `[${head}]\n${part.text}` : part.text;
  });
  const text = parts.join("\n\n");
  const more = text.length - READ_CHARS;
  return more > 0 ? `${text.slice(0, READ_CHARS)}\n\n(${more.toLocaleString("en")} more characters)` : text;
}

// -- elements

function element(name, className, text = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

/** A list that only has elements for the rows in sight. Up, Down, PageUp, PageDown, Home and End choose a row. */
class RowList {
  constructor(box, id, choose) {
    this.box = box;
    this.id = id;
    this.choose = choose;
    this.rows = [];
    this.chosen = -1;
    this.drawn = new Map();
    this.sizer = document.createElement("div");
    this.sizer.setAttribute("role", "presentation");
    this.box.append(this.sizer);
    this.isWaiting = false;
    box.addEventListener("scroll", () => this.drawSoon());
    box.addEventListener("keydown", (event) => this.onKey(event));
    box.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) this.pick(Number(row.dataset.place));
    });
    new ResizeObserver(() => this.drawSoon()).observe(box);
  }

  show(rows) {
    this.rows = rows;
    this.box.removeAttribute("aria-activedescendant");
    this.chosen = -1;
    for (const row of this.drawn.values()) row.remove();
    this.drawn.clear();
    this.sizer.style.height = `${rows.length * ROW}px`;
    this.draw();
  }

  onKey(event) {
    const page = Math.max(Math.floor(this.box.clientHeight / ROW) - 1, 1);
    const last = this.rows.length - 1;
    const to = {
      ArrowDown: this.chosen + 1,
      ArrowUp: this.chosen - 1,
      PageDown: this.chosen + page,
      PageUp: this.chosen - page,
      Home: 0,
      End: last,
    }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.pick(Math.min(Math.max(to, 0), last));
  }

  pick(place) {
    this.mark(place);
    this.choose(place);
  }

  /** Marks a row as chosen and scrolls until it is in sight; -1 marks none. */
  mark(place) {
    this.chosen = place;
    if (place >= 0) this.scrollTo(place);
    this.draw();
    for (const [at, row] of this.drawn) row.setAttribute("aria-selected", String(at === place));
    if (place >= 0) this.box.setAttribute("aria-activedescendant", `${this.id}-${place}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  scrollTo(place) {
    const top = place * ROW;
    const { scrollTop, clientHeight } = this.box;
    if (top < scrollTop || top + ROW > scrollTop + clientHeight) {
      this.box.scrollTop = Math.max(top - clientHeight / 2 + ROW / 2, 0);
    }
  }

  drawSoon() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.draw();
    });
  }

  draw() {
    const first = Math.max(Math.floor(this.box.scrollTop / ROW) - SPARE, 0);
    const end = Math.min(Math.ceil((this.box.scrollTop + this.box.clientHeight) / ROW) + SPARE, this.rows.length);
    for (const [place, row] of this.drawn) {
      if (place < first || place >= end) {
        row.remove();
        this.drawn.delete(place);
      }
    }
    for (let place = first; place < end; place += 1) {
      if (!this.drawn.has(place)) {
        const row = this.rowElement(place);
        this.drawn.set(place, row);
        this.box.append(row);
      }
    }
  }

  rowElement(place) {
    const { message, state } = this.rows[place];
    const row = element("div", "row");
    row.id = `${this.id}-${place}`;
    row.dataset.place = place;
    row.dataset.state = state;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", String(place === this.chosen));
    row.setAttribute("aria-setsize", this.rows.length);
    row.setAttribute("aria-posinset", place + 1);
    row.style.transform = `translateY(${place * ROW}px)`;
    const head = element("div", "head");
    head.append(
      element("span", "of", nameOf(this.rows[place])),
      element("span", "role", message.role),
      element("span", "size", `${short(message.tokens)} tokens`),
      element("span", "state", stateName(this.rows[place])),
    );
    const start = element("span", "start", startOf(message));
    start.dir = "auto";
    row.append(head, start);
    return row;
  }
}

// -- a session

class SessionView {
  constructor(root) {
    this.root = root;
    const number = root.dataset.session;
    this.conversation = JSON.parse(document.getElementById(`conversation-${number}`).textContent);
    this.count = this.conversation.calls.length;
    if (!this.count) return;
    this.find = (selector) => root.querySelector(selector);
    this.whole = new RowList(this.find(".whole"), `whole-${number}`, (place) => this.read("whole", place));
    this.sent = new RowList(this.find(".sent-list"), `sent-${number}`, (place) => this.read("sent", place));
    this.stops = this.conversation.views.map((view) => view.call);
    this.listen();
    const first = this.conversation.views.find((view) => view.covered) ?? this.conversation.views[0];
    this.goTo(first?.call ?? this.count);
  }

  listen() {
    this.find(".slider").addEventListener("input", (event) => this.goTo(event.target.valueAsNumber));
    this.find(".number").addEventListener("change", (event) => this.goTo(event.target.valueAsNumber || this.call));
    this.find(".earlier").addEventListener("click", () => this.goTo(this.stops.findLast((stop) => stop < this.call)));
    this.find(".later").addEventListener("click", () => this.goTo(this.stops.find((stop) => stop > this.call)));
    this.find(".chart svg").addEventListener("click", (event) => {
      const place = event.currentTarget.getBoundingClientRect();
      this.goTo(Math.round(((event.clientX - place.left) / place.width) * (this.count - 1)) + 1);
    });
    this.root.addEventListener("click", (event) => {
      const button = event.target.closest("[data-show]");
      if (!button) return;
      this.goTo(Number(button.dataset.show));
      this.find(".seen").scrollIntoView();
      this.find(".number").focus({ preventScroll: true });
    });
  }

  /** Shows what a call saw; the nearest one for a number that is no call. */
  goTo(number) {
    this.call = Math.min(Math.max(number, 1), this.count);
    const { whole, sent, view } = lookAt(this.conversation, this.call);
    this.rows = { whole, sent };
    this.find(".slider").value = this.call;
    this.find(".number").value = this.call;
    this.find(".earlier").disabled = !this.stops.some((stop) => stop < this.call);
    this.find(".later").disabled = !this.stops.some((stop) => stop > this.call);
    this.drawCursor();
    this.find(".said").textContent = this.describe(view);
    this.whole.show(whole);
    this.sent.show(sent);
    // Both begin where they part: the summary is at the top of the view, and the last message in it at the cut of the list.
    this.whole.scrollTo(view ? view.covered : 0);
    this.sent.box.scrollTop = 0;
    const [wholeCount, sentCount] = this.root.querySelectorAll(".columns .count");
    wholeCount.textContent = `${whole.length} messages`;
    sentCount.textContent = `${sent.length} messages`;
    this.find(".reading").hidden = true;
  }

  describe(view) {
    const sent = this.conversation.sent[this.call - 1];
    const without = this.conversation.without[this.call - 1];
    const sizes = `Call ${this.call} sent about ${short(sent)} tokens; the whole list has ${short(without)}.`;
    if (!view) return `${sizes} Nothing was compacted yet: the whole list was sent.`;
    const since = view.call === this.call ? "It was compacted for this call." : `It was compacted for call ${view.call}.`;
    return `${sizes} ${since}`;
  }

  drawCursor() {
    const x = this.count > 1 ? `${(100 * (this.call - 1)) / (this.count - 1)}%` : "50%";
    this.find(".cursor").setAttribute("x1", x);
    this.find(".cursor").setAttribute("x2", x);
  }

  /** Shows a message of one list in full, next to its message in the other list. */
  read(side, place) {
    const otherSide = side === "whole" ? "sent" : "whole";
    const row = this.rows[side][place];
    const other = findOther(row, this.rows[otherSide]);
    this[otherSide].mark(other);
    this.write(side, row);
    this.write(otherSide, this.rows[otherSide][other]);
    this.find(".reading").hidden = false;
  }

  write(side, row) {
    const title = side === "whole" ? "In the list" : "As sent";
    const missing = side === "whole" ? "no message of its own" : "not sent";
    const name = row ? [nameOf(row), row.message.role, stateName(row)].filter(Boolean).join(", ") : missing;
    this.find(`.reading-${side}`).textContent = `${title}: ${name}`;
    this.find(`.text-${side}`).textContent = row ? wholeText(row.message) : "";
  }
}

// -- the page

function openSession(number) {
  const place = document.querySelector(".opened");
  place.replaceChildren(document.getElementById(`session-${number}`).content.cloneNode(true));
  for (const button of document.querySelectorAll("[data-open]")) {
    button.setAttribute("aria-expanded", String(button.dataset.open === String(number)));
  }
  new SessionView(place.querySelector(".session"));
  place.querySelector("h2").focus();
}

function setUpTheme() {
  const themes = ["system", "light", "dark"];
  const button = document.querySelector(".theme");
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % themes.length];
    document.documentElement.dataset.theme = next;
    button.textContent = `Theme: ${next}`;
  });
}

setUpTheme();
for (const button of document.querySelectorAll("[data-open]")) {
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => openSession(button.dataset.open));
}
for (const root of document.querySelectorAll(".session")) new SessionView(root);
