// Draws the page: the head, and each section of the data. RENDERERS has the renderer of each section by its id. A new
// section needs an entry here and one in lib/Report/Report.cpp.

/** Section id -> [description; renderer]. */
const RENDERERS = {
  plans: ["The plans that the search found, fastest first. The columns Step and Memory are computed from compiled programs, the column Estimates by the search. Plans without a step time were only estimated, not compiled.", renderPlans],
  pipeline: ["The pipeline's stages, and the timeline of one step. The planned timeline is computed from the flops of each stage, as if messages took no time. The measured timeline comes from a trace, if one was given. Each row is one pipeline coordinate.", renderPipeline],
  memory: ["The memory of one rank over a step, in program order. Variables are allocated for the whole step, other values only while they are needed. The table lists the largest buffers at the peak. Values that differ only by layer or micro-batch share a row.", renderMemory],
  parameters: ["The sharding of each parameter and its reason. Parameters that differ only by layer share a row that unfolds.", renderParameters],
  collectives: ["Communication between ranks. Count and bytes are per micro-batch (forward, backward) or per update; bytes are the input of one rank.", renderCollectives],
  flops: ["The computation of one rank in a step, by layer of the model.", renderFlops],
  kernels: ["Layers with the same ops share a class, which has one function per phase. Generated kernels contain the ops that are fused into them; contractions, attention and embeddings are library calls. Runs are per step, or per batch for evaluation.", renderKernels],
  segments: ["The segments of the model, in order.", renderSegments],
};

function makeTiles(report) {
  const { totals, mesh } = report;
  const ranks = mesh.reduce((product, axis) => product * axis.size, 1);
  // Stages run on different ranks, so each total adds one rank per stage.
  const staged = report.sections.some(section => section.id === "pipeline");
  const perRank = staged ? "over all stages" : "per rank";
  const flops = totals.contraction_flops + totals.other_flops;
  const tile = (title, figure, note) => make("div", { class: "tile" }, make("dt", {}, title), make("dd", { class: "figure" }, figure), make("dd", { class: "note" }, note));
  const tiles = [
    tile("Parameters", scale(totals.parameter_elements, 1000, ["", "k", "M", "G", "T"]), `${countOf(totals.parameters, "tensor", "tensors")}, ${formatBytes(totals.parameter_bytes)}; ${formatBytes(totals.parameter_local_bytes)} ${perRank}`),
    tile("Ranks", formatInteger(ranks), countOf(report.micro_batches, "micro-batch per step", "micro-batches per step")),
    tile(`Flops per step, ${perRank}`, formatFlops(flops), `${flops ? ((100 * totals.contraction_flops) / flops).toFixed(1) : 0} % in contractions`),
    tile(`Communicated per step, ${perRank}`, formatBytes(totals.collective_bytes), `${countOf(totals.collectives, "collective", "collectives")}${staged ? "; messages between stages not included" : ""}`),
    tile(`Calls per step, ${perRank}`, formatInteger(totals.kernel_calls + totals.library_calls), `${formatInteger(totals.kernel_calls)} fused kernels, ${formatInteger(totals.library_calls)} library calls`),
  ];
  if (totals.arena_bytes !== undefined) tiles.push(tile(staged ? "Memory, largest rank" : "Memory per rank", formatBytes(totals.arena_bytes), "state, saved values and scratch"));
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
