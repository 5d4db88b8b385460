// Draws the page: its head, and each section of the data by the renderer of its id. A new section is an entry
// here and one in lib/Report/Report.cpp.

/** Section id -> [what it shows, in words; its renderer]. */
const RENDERERS = {
  pipeline: ["The stages that the model is cut into, and a step of them: by the operations of each stage, as if messages took no time; and as a program ran, where it was given its trace. A row is a coordinate of the pipeline's axis.", renderPipeline],
  memory: ["What a rank holds over a step, by the program's own order: variables stay below, values come and go; and what holds the most at the fullest moment. Values that differ only by their layer or micro-batch are one row.", renderMemory],
  parameters: ["Where each parameter lies and why. Those that differ only by their layer are one row that opens.", renderParameters],
  collectives: ["What moves between ranks. Count and bytes are of one micro-batch (forward, backward) or one update; bytes are what one rank gives in.", renderCollectives],
  flops: ["What one rank computes in a step, by the model's layers.", renderFlops],
  kernels: ["Equal layers share one class of functions, a function a phase. Generated kernels hold the ops fused into them; contractions, attention and embeddings are library calls. Runs are of a step; those of evaluation, of one batch.", renderKernels],
  segments: ["The stretches that the model is cut into, in order.", renderSegments],
};

function makeTiles(report) {
  const { totals, mesh } = report;
  const ranks = mesh.reduce((product, axis) => product * axis.size, 1);
  // Each stage has ranks of its own: totals are then over one rank of each.
  const staged = report.sections.some(section => section.id === "pipeline");
  const aRank = staged ? "over all stages" : "a rank";
  const flops = totals.contraction_flops + totals.other_flops;
  const tile = (title, figure, note) => make("div", { class: "tile" }, make("dt", {}, title), make("dd", { class: "figure" }, figure), make("dd", { class: "note" }, note));
  const tiles = [
    tile("Parameters", scale(totals.parameter_elements, 1000, ["", "k", "M", "G", "T"]), `${countOf(totals.parameters, "tensor", "tensors")}, ${formatBytes(totals.parameter_bytes)}; ${formatBytes(totals.parameter_local_bytes)} ${aRank}`),
    tile("Ranks", formatInteger(ranks), countOf(report.micro_batches, "micro-batch a step", "micro-batches a step")),
    tile(`Flops of a step, ${aRank}`, formatFlops(flops), `${flops ? ((100 * totals.contraction_flops) / flops).toFixed(1) : 0} % in contractions`),
    tile(`Moved in a step, ${aRank}`, formatBytes(totals.collective_bytes), `${countOf(totals.collectives, "collective", "collectives")}${staged ? "; messages between stages apart" : ""}`),
    tile(`Calls of a step, ${aRank}`, formatInteger(totals.kernel_calls + totals.library_calls), `${formatInteger(totals.kernel_calls)} fused kernels, ${formatInteger(totals.library_calls)} of libraries`),
  ];
  if (totals.arena_bytes !== undefined) tiles.push(tile(staged ? "Memory, the fullest rank" : "Memory, a rank", formatBytes(totals.arena_bytes), "state, saved values and scratch"));
  return make("dl", { class: "tiles" }, tiles);
}

function makeHead(report) {
  const name = report.model.split(/[\\/]/).pop();
  const axes = report.mesh.map((axis, i) => make("li", {}, make("span", { class: `axis-${i % 6}` }, axis.name), ` = ${axis.size} `, make("span", { class: "soft" }, axis.kind)));
  return make("header", {},
    make("p", { class: "kicker" }, `Parashard ${report.parashard}: the plan of`),
    make("h1", {}, name),
    make("ul", { class: "mesh", "aria-label": "mesh" }, axes, make("li", { class: "soft" }, `level ${report.level}`)),
    make("pre", { class: "command", "aria-label": "command line" }, report.command),
    makeTiles(report));
}

function drawPage() {
  const report = JSON.parse(document.getElementById("data").textContent);
  const sections = report.sections.filter(section => RENDERERS[section.id]);
  const links = sections.map(section => make("a", { href: `#${section.id}` }, section.title));
  const bodies = sections.map(section => {
    const [lead, render] = RENDERERS[section.id];
    return make("section", { id: section.id, "aria-labelledby": `${section.id}-title` },
      make("h2", { id: `${section.id}-title` }, section.title), make("p", { class: "lead" }, lead), render(section.data, report));
  });
  document.getElementById("page").replaceChildren(makeHead(report), make("nav", { "aria-label": "sections" }, links), make("main", {}, bodies));
}

drawPage();
