// Defines one renderer per section, which turns the section's data into an element.

const chip = text => make("span", { class: "chip" }, text);
const code = text => make("span", { class: "mono" }, text);

/** Returns a chip with the number of equal items, if this number is above one. */
const timesChip = count => (count > 1 ? chip(`× ${formatInteger(count)}`) : null);

/** Returns the text with the names of mesh axes in color. Axes are in quotes, or are the items of a list. */
function colourAxes(text, mesh, isList) {
  const colours = new Map(mesh.map((axis, i) => [axis.name, `axis-${i % 6}`]));
  const parts = isList ? text.split(/(, )/) : text.split(/("[^"]*")/);
  return make("span", { class: "mono" }, parts.map(part => {
    const colour = colours.get(isList ? part : part.slice(1, -1));
    return colour && (isList || part.startsWith('"')) ? make("span", { class: colour }, part) : part;
  }));
}

// ---- plans ---------------------------------------------------------------------------------------------------------

const formatSeconds = seconds => scale(seconds * 1e6, 1000, ["µs", "ms", "s", "ks"]);

/** Draws plans in a chart of memory and step time. A line joins the Pareto front: no other plan is better in both. */
function drawPlans(points, limit) {
  const width = 1000, height = 300, margin = 12;
  const range = values => [Math.min(...values), Math.max(...values)];
  const [least, most] = range(points.map(point => point.bytes).concat(limit)), [fast, slow] = range(points.map(point => point.seconds));
  const place = (value, low, high, size) => margin + ((value - low) / (high - low || 1)) * (size - 2 * margin);
  const x = bytes => place(bytes, least, most, width).toFixed(1);
  const y = seconds => (height - place(seconds, fast, slow, height)).toFixed(1);
  const front = points.filter(point => !points.some(other => other.bytes <= point.bytes && other.seconds < point.seconds)).sort((a, b) => a.bytes - b.bytes);
  const label = `${countOf(points.length, "plan", "plans")} by memory and step time; ${countOf(front.length, "plan is", "plans are")} on the Pareto front: no other plan is better in both`;
  const markup = `<svg class="plans" viewBox="0 0 ${width} ${height}" role="img">` +
    `<path class="limit" d="M${x(limit)} 0V${height}"/><path class="front" d="M${front.map(point => `${x(point.bytes)} ${y(point.seconds)}`).join("L")}"/>` +
    points.map((point, i) => `<circle class="${i === 0 ? "chosen" : point.isPlan ? "plan" : "neighbor"}" cx="${x(point.bytes)}" cy="${y(point.seconds)}" r="${i === 0 ? 8 : 5}"/>`).join("") + "</svg>"; // contains only numbers
  const picture = document.adoptNode(new DOMParser().parseFromString(markup, "text/html").body.firstChild);
  picture.setAttribute("aria-label", label);
  picture.querySelectorAll("circle").forEach((circle, i) => {
    const title = document.createElementNS(picture.namespaceURI, "title");
    title.textContent = `${points[i].name}: ${formatSeconds(points[i].seconds)}, ${formatBytes(points[i].bytes)}`;
    circle.append(title);
  });
  return make("div", { class: "frame chart" },
    make("div", { class: "legend" }, make("span", { class: "chosen" }, "the plan"), make("span", { class: "plan" }, "other plans"), make("span", { class: "neighbor" }, "one choice changed"), make("div", {}, `memory per rank: ${formatBytes(least)} to ${formatBytes(most)}; the dashed line is the limit, ${formatBytes(limit)}`)),
    picture, make("div", { class: "ends" }, make("span", {}, `horizontal: memory per rank; vertical: step time, from ${formatSeconds(fast)}`)));
}

function renderPlans({ plans, neighbors, breakdown, mfu, memory_limit }) {
  const seconds = row => (row.step_s === undefined ? row.estimated_s : row.step_s);
  const bytes = row => (row.memory_bytes === undefined ? row.estimated_bytes : row.memory_bytes);
  const columns = [
    { title: "Mesh", kind: "name", show: row => code(row.mesh) },
    { title: "Step", kind: "number", show: row => (row.step_s === undefined ? "–" : formatSeconds(row.step_s)) },
    { title: "Memory", kind: "number", show: row => (row.memory_bytes === undefined ? "–" : formatBytes(row.memory_bytes)) },
    { title: "Estimates", kind: "number", show: row => `${formatSeconds(row.estimated_s)}, ${formatBytes(row.estimated_bytes)}` },
    { title: "Policy", kind: "fixed", show: row => row.policy },
    { title: "ZeRO", kind: "number", show: row => formatInteger(row.zero) },
    { title: "Batch", kind: "number", show: row => formatInteger(row.batch) },
    { title: "Micro-batches", kind: "number", show: row => formatInteger(row.micro_batches) },
    { title: "Schedule", kind: "fixed", show: row => (row.schedule ? [row.schedule, timesChip(row.chunks)] : "–") },
    { title: "Recomputation", kind: "fixed", show: row => row.recompute },
  ];
  const partColumns = [
    { title: "Part of the step", kind: "name", show: row => row.part },
    { title: "Time", kind: "number", show: row => formatSeconds(row.seconds) },
    { title: "Share", kind: "number", show: row => `${((100 * row.seconds) / plans[0].step_s).toFixed(1)} %` },
  ];
  const neighborColumns = [
    { title: "Change", kind: "name", show: row => code(row.change) },
    { title: "Step", kind: "number", show: row => formatSeconds(row.step_s) },
    { title: "Memory", kind: "number", show: row => formatBytes(row.memory_bytes) },
    { title: "Why not", kind: "words", show: row => row.why },
  ];
  const points = plans.map(row => ({ name: row.mesh, seconds: seconds(row), bytes: bytes(row), isPlan: true }))
    .concat(neighbors.map(row => ({ name: row.change, seconds: row.step_s, bytes: row.memory_bytes, isPlan: false })))
    .filter(point => point.seconds < 2 * plans[0].step_s && point.bytes < 2 * memory_limit);
  const table = (label, shown, rows) => make("div", { class: "frame" }, makePlainTable(label, shown, rows));
  return make("div", {},
    drawPlans(points, memory_limit), table("plans", columns, plans),
    make("h3", {}, `The plan: ${formatSeconds(plans[0].step_s)} per step, ${(100 * mfu).toFixed(1)} % of the peak rate (MFU)`),
    table("parts", partColumns, breakdown.filter(row => row.seconds > plans[0].step_s / 1000)),
    neighbors.length ? [make("h3", {}, "Plans with one choice changed (estimates)"), table("neighbors", neighborColumns, neighbors)] : null);
}

// ---- pipeline ------------------------------------------------------------------------------------------------------

/** Puts a picture into a shadow tree of its own, so that its style stays local and its tooltips work. */
function makePicture(markup, label) {
  const frame = make("div", { class: "frame picture", role: "img", "aria-label": label, tabindex: "0" });
  const picture = new DOMParser().parseFromString(markup, "image/svg+xml").documentElement;
  frame.attachShadow({ mode: "open" }).append(document.adoptNode(picture));
  return frame;
}

function renderPipeline({ schedule, stages, coordinates, plan, measured }) {
  const percent = share => `${(100 * share).toFixed(1)} %`;
  const milliseconds = time => time.toFixed(time < 10 ? 3 : 1);
  const stageColumns = [
    { title: "Stage", kind: "fixed", show: row => formatInteger(row.stage) },
    { title: "Coordinate", kind: "number", show: row => formatInteger(row.pp) },
    { title: "From segment", kind: "number", show: row => formatInteger(row.first_segment) },
    { title: "Forward", kind: "number", show: row => formatFlops(row.forward) },
    { title: "Backward, inputs", kind: "number", show: row => formatFlops(row.backward_input) },
    { title: "Backward, weights", kind: "number", show: row => formatFlops(row.backward_weight) },
    { title: "Saved", kind: "number", show: row => formatBytes(row.saved_bytes) },
    { title: "Sent to the next stage", kind: "number", show: row => (row.stage + 1 < stages.length ? formatBytes(row.cut_bytes) : "–") },
    ...(measured ? PHASES.map(([phase, title]) => ({ title: `${title.replace("Backward, ", "")}, ms`, kind: "number", show: row => milliseconds(measured.stages[row.stage][phase]) })) : []),
  ];
  const coordinateColumns = [
    { title: "Coordinate", kind: "fixed", show: row => formatInteger(row.pp) },
    { title: "Stages", kind: "fixed", show: row => stages.filter(stage => stage.pp === row.pp).map(stage => stage.stage).join(", ") },
    { title: "Live micro-batches", kind: "number", show: row => formatInteger(plan.held[row.pp]) },
    ...(measured ? [{ title: "Live, measured", kind: "number", show: row => formatInteger(measured.held[row.pp]) }] : []),
    { title: "Saved values, peak", kind: "number", show: row => formatBytes(row.saved_bytes) },
    { title: "Memory per rank", kind: "number", show: row => (row.arena_bytes === undefined ? "–" : formatBytes(row.arena_bytes)) },
  ];
  const table = (label, columns, rows) => make("div", { class: "frame" }, makePlainTable(label, columns, rows));
  const parts = [
    make("h3", {}, `Planned: ${schedule}, ${percent(plan.bubble)} idle`), makePicture(plan.picture, `A planned step, ${percent(plan.bubble)} idle`),
    measured ? [
      make("h3", {}, `Measured: ${milliseconds(measured.makespan)} ms, ${percent(measured.bubble)} idle; update ${milliseconds(measured.update)} ms`),
      makePicture(measured.picture, `Step ${measured.step} of ${measured.steps} measured, ${percent(measured.bubble)} idle`),
    ] : null,
    make("h3", {}, "Stages, per micro-batch"), table("stages", stageColumns, stages),
    make("h3", {}, "Coordinates"), table("coordinates", coordinateColumns, coordinates),
  ];
  return make("div", {}, parts.flat());
}

// ---- memory --------------------------------------------------------------------------------------------------------

/** Draws the bytes in use over a step as an area, with the variables at the bottom. */
function drawInUse(row) {
  const width = 1000, height = 120, count = row.in_use.length;
  const y = bytes => (height * (1 - bytes / row.arena_bytes)).toFixed(1);
  const steps = row.in_use.map((bytes, i) => `L${((i * width) / count).toFixed(1)} ${y(bytes)}H${(((i + 1) * width) / count).toFixed(1)}`).join("");
  const label = `Bytes in use over a step: ${formatBytes(row.variable_bytes)} of variables, at most ${formatBytes(row.live_bytes)} in total`;
  const markup = `<svg class="in-use" viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img">` +
    `<path class="values" d="M0 ${height}${steps}V${height}Z"/>` +
    `<path class="variables" d="M0 ${height}V${y(row.variable_bytes)}H${width}V${height}Z"/></svg>`; // contains only numbers
  const picture = document.adoptNode(new DOMParser().parseFromString(markup, "text/html").body.firstChild);
  picture.setAttribute("aria-label", label);
  return picture;
}

function renderMemory(rows) {
  const columns = [
    { title: "What", kind: "name", show: holder => code(holder.what) },
    { title: "Kind", kind: "fixed", show: holder => holder.kind },
    { title: "First at", kind: "words", show: holder => holder.at },
    { title: "Count", kind: "number", show: holder => formatInteger(holder.count) },
    { title: "Bytes", kind: "number", show: holder => formatBytes(holder.bytes) },
  ];
  const parts = rows.map(row => {
    const whose = rows.length > 1 ? ` of coordinate ${row.pp}` : "";
    return [
      make("h3", {}, `One rank${whose}: ${formatBytes(row.arena_bytes)}; at most ${formatBytes(row.live_bytes)} in use at once, in ${row.instant}${row.host_bytes ? `; and ${formatBytes(row.host_bytes)} of host memory for offloaded data` : ""}`),
      make("div", { class: "frame chart" }, make("div", { class: "legend" }, make("span", { class: "forward" }, "values"), make("span", { class: "rest" }, "variables")), drawInUse(row)),
      make("div", { class: "frame" }, makePlainTable(`holders${whose}`, columns, row.holders)),
    ];
  });
  return make("div", {}, parts.flat());
}

// ---- parameters ----------------------------------------------------------------------------------------------------

function renderParameters(rows, report) {
  const key = row => JSON.stringify([foldIndices(row.name), row.shape, row.dtype, row.sharding, row.frozen, foldIndices(row.why), foldIndices(row.at)]);
  const common = (members, text) => (members.length > 1 ? foldIndices(text(members[0])) : text(members[0]));
  const size = shape => shape.reduce((product, dim) => product * dim, 1);
  const columns = [
    { title: "Name", kind: "name", value: m => common(m, row => row.name), show: m => [code(common(m, row => row.name)), timesChip(m.length), m[0].frozen ? chip("frozen") : null, m.length === 1 && m[0].aliases.length ? make("div", { class: "soft mono" }, `also ${m[0].aliases.join(", ")}`) : null] },
    { title: "Shape", kind: "fixed", value: m => size(m[0].shape), show: m => formatShape(m[0].shape) },
    { title: "Type", kind: "fixed", value: m => m[0].dtype, show: m => code(m[0].dtype) },
    { title: "Sharding", kind: "fixed", value: m => m[0].sharding, show: m => colourAxes(m[0].sharding, report.mesh) },
    { title: "Shape per rank", kind: "fixed", value: m => size(m[0].local), show: m => formatShape(m[0].local) },
    { title: "Bytes per rank", kind: "number", value: m => sum(m, row => row.bytes), show: m => formatBytes(sum(m, row => row.bytes)) },
    { title: "Why", kind: "words", value: m => common(m, row => row.why), show: m => common(m, row => row.why) },
    { title: "First used at", kind: "words", value: m => common(m, row => row.at), show: m => common(m, row => row.at) },
  ];
  const text = row => [row.name, ...row.aliases, row.dtype, row.sharding, row.why, row.at, row.shape.join("x"), row.frozen ? "frozen" : ""].join(" ");
  return new FoldTable({ label: "parameters", columns, groups: groupBy(rows, key), text, noun: ["parameter", "parameters"] }).element;
}

// ---- collectives ---------------------------------------------------------------------------------------------------

/** Lists all locations of one collective. Locations that differ only by layer share a line that unfolds. */
function makeLocations(row) {
  const groups = groupBy(row.locations, location => JSON.stringify([foldIndices(location.at), location.bytes]));
  const say = text => code(text || "unknown");
  const show = group => {
    if (group.every(location => location.at === group[0].at)) return [say(group[0].at), timesChip(group.length)];
    const list = make("ul", {}, group.map(location => make("li", {}, say(location.at))));
    return make("details", {}, make("summary", {}, say(foldIndices(group[0].at)), timesChip(group.length)), list);
  };
  const columns = [
    { title: "At", kind: "name", show },
    { title: "Count", kind: "number", show: group => formatInteger(group.length) },
    { title: "Bytes each", kind: "number", show: group => formatBytes(group[0].bytes) },
    { title: "Bytes", kind: "number", show: group => formatBytes(sum(group, location => location.bytes)) },
  ];
  return make("div", { class: "inner" }, makePlainTable("locations", columns, groups));
}

function renderCollectives(rows, report) {
  if (!rows) return make("p", { class: "empty" }, "This module was compiled by a version that did not record its collectives.");
  const first = m => m[0];
  const where = row => (row.locations.length === 1 ? row.locations[0].at : `${row.locations[0].at} and ${countOf(row.locations.length - 1, "other location", "other locations")}`);
  const columns = [
    { title: "Collective", kind: "fixed", value: m => first(m).kind, show: m => code(first(m).kind) },
    { title: "Axes", kind: "fixed", value: m => first(m).axes, show: m => colourAxes(first(m).axes, report.mesh, true) },
    { title: "When", kind: "fixed", value: m => first(m).when, show: m => first(m).when },
    { title: "What", kind: "words", value: m => first(m).what, show: m => first(m).what },
    { title: "Why", kind: "words", value: m => first(m).why, show: m => first(m).why },
    { title: "Where", kind: "words", value: m => first(m).locations[0].at, show: m => where(first(m)) },
    { title: "Count", kind: "number", value: m => first(m).count, show: m => formatInteger(first(m).count) },
    { title: "Bytes", kind: "number", value: m => first(m).bytes, show: m => formatBytes(first(m).bytes) },
    { title: "Bytes per step", kind: "number", value: m => first(m).bytes * first(m).times, show: m => (first(m).times ? formatBytes(first(m).bytes * first(m).times) : "–") },
  ];
  const text = row => [row.kind, row.axes, row.when, row.what, row.why, ...row.locations.map(location => location.at)].join(" ");
  const detail = ([row], asked) => (row.locations.length > 1 ? asked || makeLocations(row) : null);
  return new FoldTable({ label: "collectives", columns, groups: rows.map(row => [row]), text, noun: ["kind of collective", "kinds of collective"], detail }).element;
}

// ---- flops ---------------------------------------------------------------------------------------------------------

const PHASES = [["forward", "Forward"], ["backward_input", "Backward, inputs"], ["backward_weight", "Backward, weights"]];
const flopsOf = cost => (cost ? cost.contraction + cost.other : 0);
const phaseFlops = row => sum(PHASES, ([phase]) => flopsOf(row[phase]));
const rangeOf = rows => (rows.length > 1 ? `${rows[0].segment}–${rows[rows.length - 1].segment}` : String(rows[0].segment));

/** Draws one column per segment, with its phases stacked. */
function makeChart(segments) {
  const most = Math.max(1, ...segments.map(phaseFlops));
  const column = row => make("div", { title: `${row.name}: ${formatFlops(phaseFlops(row))} flops` }, [...PHASES].reverse().map(([phase]) => {
    const part = make("div", { class: phase });
    part.style.height = `${(100 * flopsOf(row[phase])) / most}%`;
    return part;
  }));
  const density = segments.length <= 24 ? "few" : segments.length <= 90 ? "some" : "";
  const largest = segments.find(row => phaseFlops(row) === most);
  const label = `Flops of ${countOf(segments.length, "segment", "segments")}; the maximum, ${formatFlops(most)}, in ${largest ? largest.name : "none"}`;
  const say = row => make("span", {}, `${row.segment}: ${row.name}`);
  const plot = make("div", {}, make("div", { class: `bars ${density}`, role: "img", "aria-label": label }, segments.map(column)),
    make("div", { class: "ends" }, say(segments[0]), segments.length > 1 ? say(segments[segments.length - 1]) : null));
  plot.style.maxWidth = `max(22rem, ${4 * segments.length}rem)`;
  return make("div", { class: "frame chart" },
    make("div", { class: "legend" }, PHASES.map(([phase, title]) => make("span", { class: phase }, title)), make("div", {}, `highest: ${formatFlops(most)} flops`)), plot);
}

function renderFlops({ segments, rest }) {
  const total = sum(segments, phaseFlops) + flopsOf(rest) || 1;
  const rows = segments.map(row => ({ ...row, bytes: sum(PHASES, ([phase]) => (row[phase] ? row[phase].bytes : 0)) }));
  if (rest.bytes) rows.push({ segment: null, name: "update and ops outside of segments", rest, bytes: rest.bytes });
  const own = row => (row.rest ? flopsOf(row.rest) : phaseFlops(row));
  const all = (m, value) => sum(m, value);
  const share = m => {
    const bar = make("div", { class: "track", "aria-hidden": "true" }, [...PHASES, ["rest"]].map(([phase]) => {
      const part = make("div", { class: phase });
      part.style.width = `${(100 * all(m, row => flopsOf(row[phase]))) / total}%`;
      return part;
    }));
    return make("div", { class: "share" }, bar, make("span", { class: "percent" }, `${((100 * all(m, own)) / total).toFixed(1)} %`));
  };
  const columns = [
    { title: "Layer", kind: "name", value: m => (m[0].segment === null ? Infinity : m[0].segment), show: m => [code(m.length > 1 ? foldIndices(m[0].name) : m[0].name), timesChip(m.length)] },
    ...PHASES.map(([phase, title]) => ({ title, kind: "number", value: m => all(m, row => flopsOf(row[phase])), show: m => (m[0].rest ? "–" : formatFlops(all(m, row => flopsOf(row[phase])))) })),
    { title: "Flops", kind: "number", value: m => all(m, own), show: m => formatFlops(all(m, own)) },
    { title: "Bytes", kind: "number", value: m => all(m, row => row.bytes), show: m => formatBytes(all(m, row => row.bytes)) },
    { title: "Share", kind: "share-cell", value: m => all(m, own), show: share },
  ];
  const key = row => JSON.stringify([foldIndices(row.name), PHASES.map(([phase]) => row[phase])]);
  const table = new FoldTable({ label: "layers", columns, groups: groupBy(rows, key), text: row => row.name, noun: ["row", "rows"] });
  return make("div", {}, segments.length ? makeChart(segments) : null, table.element);
}

// ---- kernels -------------------------------------------------------------------------------------------------------

/** Lists ops with counts: "add, mul × 3". */
function listOps(ops) {
  return groupBy(ops, op => op).map(group => (group.length > 1 ? `${group[0]} × ${group.length}` : group[0])).join(", ");
}

/** Shows the first location. The other locations unfold on a click. */
function showLocations(locations) {
  const known = locations.filter(Boolean);
  if (known.length < 2) return known[0] || "";
  return make("details", {}, make("summary", {}, known[0], chip(`+ ${known.length - 1}`)), make("ul", {}, known.slice(1).map(location => make("li", {}, location))));
}

function makeItems(row, report) {
  const columns = [
    { title: "Kind", kind: "fixed", show: item => item.kind },
    { title: "Ops", kind: "words", show: item => [code(listOps(item.ops)), item.axes ? [" over ", colourAxes(item.axes, report.mesh, true)] : null, item.form ? make("div", { class: "soft" }, item.form) : null] },
    { title: "Kernel", kind: "words", show: item => (item.kernels || []).map(name => make("div", { class: "mono" }, name)) },
    { title: "From", kind: "words", show: item => showLocations(item.locations) },
    { title: "Types", kind: "words", show: item => make("span", { class: "mono soft" }, item.types.replace(" -> ", " → ")) },
    { title: "Flops", kind: "number", show: item => (flopsOf(item) ? formatFlops(flopsOf(item)) : "–") },
    { title: "Bytes", kind: "number", show: item => formatBytes(item.bytes) },
  ].filter(column => column.title !== "Kernel" || row.items.some(item => item.kernels && item.kernels.length));
  return make("div", { class: "inner" }, makePlainTable(row.function, columns, row.items));
}

function renderKernels(rows, report) {
  const kinds = (m, kind) => m[0].items.filter(item => item.kind === kind).length;
  const stepFlops = m => (m[0].phase === "evaluate" ? 0 : flopsOf(m[0]) * m[0].runs);
  const count = kind => ({ kind: "number", value: m => kinds(m, kind), show: m => formatInteger(kinds(m, kind)) });
  const columns = [
    { title: "Class and phase", kind: "name", value: m => m[0].function, show: m => code(m[0].function) },
    { title: "First at", kind: "words", value: m => m[0].at, show: m => m[0].at },
    { title: "Runs", kind: "number", value: m => m[0].runs, show: m => formatInteger(m[0].runs) },
    { title: "Kernels", ...count("kernel") },
    { title: "Library", ...count("library") },
    { title: "Collectives", ...count("collective") },
    { title: "Flops per run", kind: "number", value: m => flopsOf(m[0]), show: m => formatFlops(flopsOf(m[0])) },
    { title: "Bytes per run", kind: "number", value: m => m[0].bytes, show: m => formatBytes(m[0].bytes) },
    { title: "Flops per step", kind: "number", value: stepFlops, show: m => (m[0].phase === "evaluate" ? "–" : formatFlops(stepFlops(m))) },
  ];
  const text = row => [row.function, row.phase, row.at, ...row.items.flatMap(item => [item.kind, ...item.ops, ...item.locations, ...(item.kernels || [])])].join(" ");
  const detail = ([row], asked) => (row.items.length ? asked || makeItems(row, report) : null);
  return new FoldTable({ label: "classes", columns, groups: rows.map(row => [row]), text, noun: ["class function", "class functions"], detail }).element;
}

// ---- segments ------------------------------------------------------------------------------------------------------

function renderSegments(rows) {
  const groups = [];
  for (const row of rows) {
    const key = JSON.stringify([foldIndices(row.name), row.functions]);
    const last = groups[groups.length - 1];
    if (last && last.key === key) last.rows.push(row);
    else groups.push({ key, rows: [row] });
  }
  const columns = [
    { title: "Segment", kind: "fixed", value: m => m[0].segment, show: m => [rangeOf(m), timesChip(m.length)] },
    { title: "Block", kind: "name", value: m => m[0].name, show: m => code(m.length > 1 ? foldIndices(m[0].name) : m[0].name) },
    { title: "Class functions", kind: "words", value: m => m[0].functions.join(" "), show: m => code(m[0].functions.join(", ")) },
  ];
  return new FoldTable({ label: "segments", columns, groups: groups.map(group => group.rows), text: row => [row.segment, row.name, ...row.functions].join(" "), noun: ["segment", "segments"] }).element;
}
