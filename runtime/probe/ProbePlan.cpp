// Makes the instructions of all measurements.
#include "runtime/probe/ProbePlan.h"
#include "runtime/probe/Kernels.h"
#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace psrt {
namespace {

using Json = nlohmann::json;

/// Factors a number of ranks into the sizes of axes. The last axes, of size 2, form groups of 2, 4,
/// ... consecutive ranks. Example: 12 ranks give 3, 2, 2.
std::vector<int64_t> factor(int64_t ranks) {
  std::vector<int64_t> sizes;
  for (; ranks % 2 == 0; ranks /= 2)
    sizes.push_back(2);
  if (ranks > 1)
    sizes.insert(sizes.begin(), ranks);
  return sizes;
}

/// Builds the program. Its three buffers have fixed addresses: two operands, then the result.
class PlanBuilder {
public:
  PlanBuilder(const RankLayout &layout, const Target &target, int64_t bytes)
      : layout(layout), target(target), bytes(bytes) {
    for (int64_t size : factor(layout.hosts))
      addAxis(size, hostAxes);
    for (int64_t size : factor(layout.perHost))
      addAxis(size, localAxes);
  }

  void addMatmuls();
  void addAttention();
  void addMemory();
  void addCollectives();
  void addOverlap();
  ProbePlan finish(const std::string &version);

private:
  static constexpr int64_t kTypeBytes = 4;
  int64_t left() const { return 0; }
  int64_t right() const { return bytes; }
  int64_t result() const { return 2 * bytes; }
  bool isCpu() const { return target.device == DeviceKind::Cpu; }
  bool isGpu() const { return !isCpu() && !target.isReplay; }

  void addAxis(int64_t size, std::vector<std::string> &axes) {
    axes.push_back("a" + std::to_string(mesh.size()));
    mesh.push_back(Json{{"name", axes.back()}, {"size", size}});
  }
  /// Appends instructions to the program, and adds a measurement of them.
  Probe &add(Figure figure, const std::string &name, double work, std::vector<Json> instructions) {
    Probe &probe = probes.emplace_back();
    probe.figure = figure;
    probe.name = name;
    probe.work = work;
    probe.code = append(std::move(instructions));
    return probe;
  }
  CodeRange append(std::vector<Json> instructions) {
    CodeRange range{code.size(), code.size() + instructions.size()};
    std::move(instructions.begin(), instructions.end(), std::back_inserter(code));
    return range;
  }
  Json makeMatmul(const std::string &type, int64_t m, int64_t n, int64_t k, bool lhsTransposed,
                  bool rhsTransposed) const;
  void addMatmulsOf(const std::string &type, double flops);
  Json makeAttention(bool isBackward) const;
  Json makeCopy(int64_t size) const {
    return {{"op", "copy"}, {"in", left()}, {"out", result()}, {"bytes", size}};
  }
  Json makeTransfer(const char *op, int64_t from, int64_t to) {
    return {{"op", op},
            {"ins", Json::array({from})},
            {"outs", Json::array({to})},
            {"sizes", Json::array({bytes})},
            {"wait", ++token}};
  }
  Json makeCollective(const std::string &kind, int64_t size, int64_t ranks,
                      const std::vector<std::string> &axes) const;
  void addGroup(int64_t ranks, const std::vector<std::string> &axes);

  RankLayout layout;
  Target target;
  int64_t bytes;
  std::vector<Json> mesh, code;
  std::vector<std::string> hostAxes, localAxes;
  std::vector<Probe> probes;
  int64_t token = 0;
};

/// Rounds a dim to a multiple of 16, at least 16.
int64_t roundDim(double size) { return std::max<int64_t>(1, std::llround(size / 16)) * 16; }

Json PlanBuilder::makeMatmul(const std::string &type, int64_t m, int64_t n, int64_t k,
                             bool lhsTransposed, bool rhsTransposed) const {
  Json lhs = lhsTransposed ? Json{0, 0, 1, m} : Json{0, 0, k, 1};
  Json rhs = rhsTransposed ? Json{0, 0, 1, k} : Json{0, 0, n, 1};
  return {{"op", "matmul"},
          {"dtype", type},
          {"m", m},
          {"n", n},
          {"k", k},
          {"lhs", left()},
          {"rhs", right()},
          {"out", result()},
          {"lhs_strides", lhs},
          {"rhs_strides", rhs},
          {"out_strides", {0, 0, n, 1}}};
}

/// Adds the three matmuls of a linear layer, each with about `flops` flops: many rows times a
/// transposed weight (forward), a square matmul (gradient of the input), and a contraction over
/// many rows (gradient of the weight).
void PlanBuilder::addMatmulsOf(const std::string &type, double flops) {
  int64_t side = roundDim(std::cbrt(flops / 2)), small = roundDim(std::cbrt(flops / 8));
  struct {
    int64_t m, n, k;
    bool lhsTransposed, rhsTransposed;
  } shapes[] = {{4 * small, small, small, false, true},
                {side, side, side, false, false},
                {small, small, 4 * small, true, false}};
  int variant = 0;
  for (const auto &s : shapes) {
    double work = 2.0 * double(s.m) * double(s.n) * double(s.k);
    Probe &probe = add(Figure::Matmul, type, work,
                       {makeMatmul(type, s.m, s.n, s.k, s.lhsTransposed, s.rhsTransposed)});
    probe.variant = variant++;
    probe.weight = 0.5 / 90;
  }
}

/// Adds 30 shapes per type, two sizes per decade of flops.
void PlanBuilder::addMatmuls() {
  for (const char *type : {"f32", "bf16", "f16"})
    for (int half = 0; half < 10; ++half)
      addMatmulsOf(type, std::pow(10, (isGpu() ? 7.25 : 5.25) + 0.5 * half));
}

/// Sizes of the measured attention: heads, positions, head dim.
constexpr int64_t kHeads = 4, kPositions = 1024, kHeadDim = 64;

Json PlanBuilder::makeAttention(bool isBackward) const {
  Json strides = {kHeads * kPositions * kHeadDim, kPositions * kHeadDim, kHeadDim};
  Json op = {{"op", isBackward ? "attention_grad" : "attention"},
             {"dtype", isGpu() ? "bf16" : "f32"},
             {"sizes", {1, kHeads, kHeads, kPositions, kPositions, kHeadDim}},
             {"causal", true},
             {"scale", 0.125}};
  int64_t size = kHeads * kPositions * kHeadDim * kTypeBytes, at = 0;
  for (const char *name : {"q", "k", "v", "out", "dout", "dq", "dk", "dv"}) {
    bool isGrad = name[0] == 'd';
    if (!isGrad || isBackward) {
      op[name] = left() + at;
      op[std::string(name) + "_strides"] = strides;
    }
    at += size;
  }
  op["lse"] = left() + at;
  return op;
}

/// Adds a causal attention and its gradient, and matmuls with the same number of flops. The cost
/// model counts 2 contractions for forward and 5 for backward. Each counts half, because of the
/// causal mask.
void PlanBuilder::addAttention() {
  std::string type = isGpu() ? "bf16" : "f32";
  for (bool isBackward : {false, true}) {
    double flops = (isBackward ? 5.0 : 2.0) * double(kHeads * kPositions * kPositions * kHeadDim);
    std::string name = isBackward ? "backward" : "forward";
    int64_t side = roundDim(std::cbrt(flops / 2));
    double matmulFlops = 2.0 * double(side) * double(side) * double(side);
    add(Figure::AttentionMatmul, name, matmulFlops,
        {makeMatmul(type, side, side, side, false, false)})
        .weight = 0.01;
    add(Figure::Attention, name, flops, {makeAttention(isBackward)}).weight = 0.01;
  }
}

/// Adds copies, elementwise kernels, launches, and copies to the host and back.
void PlanBuilder::addMemory() {
  add(Figure::Copy, "copy", 2.0 * double(bytes), {makeCopy(bytes)}).weight = 0.02;
  int64_t rows = bytes / (kProbeRow * kTypeBytes);
  auto makeKernel = [&](int kernel, std::vector<int64_t> args, int64_t count, int64_t grain) {
    return Json{
        {"op", "kernel"}, {"kernel", kernel}, {"args", args}, {"rows", count}, {"grain", grain}};
  };
  if (isCpu()) { // the probe has kernels only for CPUs
    add(Figure::Kernel, "add", 3.0 * double(bytes),
        {makeKernel(AddKernel, {left(), right(), result()}, rows, 16)})
        .weight = 0.02;
    add(Figure::Kernel, "normalize", 2.0 * double(bytes),
        {makeKernel(NormalizeKernel, {left(), result()}, rows, 16)})
        .weight = 0.02;
  }
  Json tiny = isCpu() ? makeKernel(EmptyKernel, {result()}, 16, 1) : makeCopy(4);
  constexpr int kLaunches = 64;
  add(Figure::Launch, "launch", kLaunches, std::vector<Json>(kLaunches, tiny)).weight = 0.01;
  int64_t host = 3 * bytes + 4096;
  for (const char *op : {"offload", "fetch"}) {
    bool toHost = op[0] == 'o';
    Json transfer = makeTransfer(op, toHost ? left() : host, toHost ? host : result());
    add(Figure::HostCopy, op, double(bytes), {transfer, Json{{"wait", token}}}).weight = 0.02;
  }
}

/// Returns a collective of f32. `size` is the number of bytes of the operand or result, whichever
/// is larger.
Json PlanBuilder::makeCollective(const std::string &kind, int64_t size, int64_t ranks,
                                 const std::vector<std::string> &axes) const {
  int64_t count = size / kTypeBytes;
  Json op = {{"op", kind}, {"dtype", "f32"}, {"axes", axes}, {"in", left()}, {"out", result()}};
  if (kind == "all_reduce" || kind == "reduce_scatter")
    op["kind"] = "sum";
  if (kind == "all_gather" || kind == "reduce_scatter")
    op["size"] = count / ranks;
  else if (kind == "all_to_all")
    op["shape"] = {ranks, count / ranks};
  else
    op["count"] = count;
  if (kind == "permute")
    for (int64_t member = 0; member < ranks; ++member)
      op["targets"].push_back((member + 1) % ranks);
  return op;
}

constexpr const char *kCollectives[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                        "permute"};
/// The measured sizes of collectives in bytes. Sizes larger than a buffer are reduced to the size
/// of the buffer.
constexpr int64_t kSizes[] = {1 << 10, 32 << 10, 1 << 20, 8 << 20, 64 << 20};

void PlanBuilder::addGroup(int64_t ranks, const std::vector<std::string> &axes) {
  for (const char *kind : kCollectives)
    for (int64_t size : kSizes) {
      int64_t whole = std::min(size, bytes) / (ranks * kTypeBytes) * ranks * kTypeBytes;
      if (whole == 0)
        continue;
      Probe &probe =
          add(Figure::Collective, kind, double(whole), {makeCollective(kind, whole, ranks, axes)});
      probe.ranks = ranks;
      probe.weight = 0.35 / double(std::size(kCollectives) * std::size(kSizes) * localAxes.size());
    }
}

/// Adds collectives among consecutive ranks of a host, in groups of 2, 4, ... ranks and of all
/// ranks of the host. Also adds messages between hosts.
void PlanBuilder::addCollectives() {
  int64_t ranks = 1;
  for (size_t i = localAxes.size(); i-- > 0;) {
    ranks *= mesh[hostAxes.size() + i]["size"].get<int64_t>();
    addGroup(ranks, {localAxes.begin() + int64_t(i), localAxes.end()});
  }
  if (layout.hosts == 1)
    return;
  for (int64_t size : kSizes) {
    Probe &probe = add(Figure::HostMessage, "permute", double(std::min(size, bytes)),
                       {makeCollective("permute", std::min(size, bytes), layout.hosts, hostAxes)});
    probe.weight = 0.01;
  }
}

/// Adds a matmul and an all-reduce over all ranks, each alone and both at once.
void PlanBuilder::addOverlap() {
  if (layout.size() == 1)
    return;
  constexpr int64_t kSide = 512, kBytes = 8 << 20;
  std::vector<std::string> axes = hostAxes;
  axes.insert(axes.end(), localAxes.begin(), localAxes.end());
  std::string type = isGpu() ? "bf16" : "f32";
  CodeRange matmul = add(Figure::OverlapMatmul, "matmul", 2.0 * kSide * kSide * kSide,
                         {makeMatmul(type, kSide, kSide, kSide, false, false)})
                         .code;
  Json start = makeCollective("all_reduce", std::min(kBytes, bytes / 2), layout.size(), axes);
  start["wait"] = ++token;
  start["queue"] = "probe";
  start["in"] = left() + bytes / 2; // not written by the matmul
  start["out"] = result() + bytes / 2;
  CodeRange both =
      add(Figure::OverlapCollective, "all_reduce", double(kBytes), {start, Json{{"wait", token}}})
          .code;
  Probe &overlap = add(Figure::Overlap, "all_reduce", double(kBytes), {});
  overlap.code = both;
  overlap.repeated = matmul;
  for (size_t i = probes.size() - 3; i < probes.size(); ++i)
    probes[i].weight = 0.02;
}

ProbePlan PlanBuilder::finish(const std::string &version) {
  ProbePlan plan;
  plan.arenaBytes = 3 * bytes;
  Json table = {{"version", 1},
                {"parashard", version},
                {"model", "psrt-probe"},
                {"target", target.text},
                {"mesh", mesh},
                {"arena_bytes", plan.arenaBytes},
                {"host_base", plan.arenaBytes + 4096},
                {"host_bytes", bytes},
                {"variables", Json::array()},
                {"inputs", Json::array()},
                {"functions", Json::array()},
                {"programs", Json::array({Json{{"name", "step"}, {"code", std::move(code)}}})}};
  if (isCpu())
    table["kernels"] = kProbeKernelNames;
  plan.table = table.dump();
  plan.probes = std::move(probes);
  return plan;
}

} // namespace

int64_t getBufferBytes(const Target &target) {
  return target.device == DeviceKind::Cpu || target.isReplay ? 64 << 20 : 256 << 20;
}

ProbePlan planProbes(const RankLayout &layout, const Target &target, const std::string &version,
                     int64_t bufferBytes) {
  PlanBuilder builder(layout, target, bufferBytes);
  builder.addMatmuls();
  builder.addAttention();
  builder.addMemory();
  builder.addCollectives();
  builder.addOverlap();
  return builder.finish(version);
}

} // namespace psrt
