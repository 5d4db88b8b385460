// Checks the options that can be checked before the model is read.
#include "dialects/ps/Refusal.h"
#include "lib/Costs/Cluster.h"
#include "lib/Schedules/PipelineSchedule.h"
#include "lib/Sharding/MeshText.h"
#include "lib/Sharding/Policy.h"
#include "lib/Support/Bytes.h"
#include "lib/Support/JsonDocument.h"
#include "lib/Training/OptimizerSpec.h"
#include "parashard/Driver.h"
#include "parashard/Import.h"
#include "parashard/Precision.h"
#include "shared/Counts.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"

using namespace parashard::precision;
using namespace parashard::sharding;
using namespace parashard::support;
using namespace parashard::training;

namespace parashard::driver {

using ps::createFlagError;

static llvm::Error checkPolicy(llvm::StringRef policy) {
  if (sharding::findPolicy(policy))
    return llvm::Error::success();
  if (sharding::isInlinePolicy(policy)) {
    auto json = JsonDocument::parse(policy);
    return json ? llvm::Error::success()
                : createFlagError("sharding-policy", ": " + llvm::toString(json.takeError()));
  }
  if (!policy.ends_with(".json"))
    return createFlagError("sharding-policy",
                           " takes " + sharding::listPolicies() + ", not '" + policy + "'");
  if (!llvm::sys::fs::is_regular_file(policy))
    return createFlagError("sharding-policy '" + policy + "'", " is not a readable file");
  return llvm::Error::success();
}

static llvm::Error checkOverlap(llvm::StringRef overlap) {
  int64_t chunks = 0;
  if (overlap == "auto" || overlap == "off" || (!overlap.getAsInteger(10, chunks) && chunks >= 1))
    return llvm::Error::success();
  return createFlagError("overlap", " takes auto, off, or a number of chunks (at least 1), not '" +
                                        overlap + "'");
}

static llvm::Error checkAlignDims(llvm::StringRef align) {
  constexpr int64_t kMax = 4096;
  int64_t multiple = 0;
  if (align == "auto" || align == "off" ||
      (!align.getAsInteger(10, multiple) && multiple >= 1 && multiple <= kMax))
    return llvm::Error::success();
  return createFlagError("align-dims", " takes auto, off, or a number from 1 to " +
                                           llvm::Twine(kMax) + ", not '" + align + "'");
}

static llvm::Error checkMatmulEpilogues(const CompileOptions &options) {
  llvm::StringRef choice = options.matmulEpilogues;
  if (choice != "on" && choice != "off")
    return createFlagError("matmul-epilogues", " takes on or off, not '" + choice + "'");
  if (choice == "on" && !llvm::StringRef(options.target).starts_with("cuda"))
    return createFlagError(
        "matmul-epilogues on",
        " needs a GPU target, not " + options.target +
            "; add a flag such as --target cuda:sm_90, or use --matmul-epilogues off");
  return llvm::Error::success();
}

static llvm::Error checkZero(const CompileOptions &options, llvm::ArrayRef<MeshAxis> mesh) {
  if (options.zero < 0 || options.zero > 3)
    return createFlagError("zero",
                           " takes 0 (off), 1 (shard optimizer state), 2 (and gradients) or 3 (and "
                           "parameters), not '" +
                               llvm::Twine(options.zero) + "'");
  bool hasDataAxis = llvm::any_of(mesh, [](const MeshAxis &axis) {
    return axis.size > 1 && axis.kind != ps::AxisKind::Tensor &&
           axis.kind != ps::AxisKind::Pipeline;
  });
  if (options.zero == 0 || hasDataAxis || options.inference)
    return llvm::Error::success();
  return createFlagError(
      "zero " + llvm::Twine(options.zero),
      " shards state over data axes, but the mesh " + options.mesh +
          " has no data axis of size 2 or more; add one such as dp=2, or remove --zero");
}

static llvm::Error checkRecompute(llvm::StringRef mode) {
  if (mode == "none" || mode == "selective" || mode == "full" || mode == "full+communication")
    return llvm::Error::success();
  if (mode.starts_with("modules=") && mode != "modules=")
    return llvm::Error::success();
  if (llvm::StringRef budget = mode; budget.consume_front("budget=")) {
    auto bytes = parseBytes(budget);
    return bytes ? llvm::Error::success()
                 : createFlagError("recompute budget", ": " + llvm::toString(bytes.takeError()));
  }
  return createFlagError("recompute",
                         " takes none, selective, full, full+communication, modules=GLOB,... or "
                         "budget=BYTES, not '" +
                             mode + "'");
}

static llvm::Error checkOffload(llvm::StringRef kinds) {
  if (kinds.empty() || kinds == "none")
    return llvm::Error::success();
  llvm::SmallVector<llvm::StringRef> parts, seen;
  kinds.split(parts, ',');
  for (llvm::StringRef part : parts) {
    if (part != "optimizer" && part != "activations" && part != "activations=all")
      return createFlagError("offload",
                             " takes none, optimizer, activations or activations=all, or a "
                             "comma-separated list, not '" +
                                 part + "'");
    llvm::StringRef kind = part.split('=').first;
    if (llvm::is_contained(seen, kind))
      return createFlagError("offload", " lists " + kind + " twice; list each kind once");
    seen.push_back(kind);
  }
  return llvm::Error::success();
}

/// Checks that the mesh has exactly `given` ranks, and at most `most` ranks. Skips a check whose
/// number is nullopt.
static llvm::Error checkRanks(const CompileOptions &options, llvm::ArrayRef<MeshAxis> mesh,
                              std::optional<int64_t> given, std::optional<int64_t> most) {
  int64_t ranks = 1;
  for (const MeshAxis &axis : mesh)
    ranks *= axis.size;
  if (given && *given != ranks)
    return createFlagError("cluster " + llvm::Twine(options.cluster),
                           " has " + describeCount(*given, "rank") + ", but --mesh " +
                               options.mesh + " has " + llvm::Twine(ranks) +
                               "; change one of them");
  if (most && ranks > *most)
    return createFlagError("cluster " + llvm::Twine(options.cluster),
                           " has at most " + describeCount(*most, "rank") + ", but --mesh " +
                               options.mesh + " has " + llvm::Twine(ranks) +
                               "; use a smaller mesh or a larger cluster");
  return llvm::Error::success();
}

static llvm::Error checkCluster(const CompileOptions &options, llvm::ArrayRef<MeshAxis> mesh) {
  if (options.cluster.empty())
    return llvm::Error::success();
  llvm::Expected<std::optional<LocalCluster>> local = parseLocalCluster(options.cluster);
  if (!local)
    return local.takeError();
  if (*local)
    return checkRanks(options, mesh, (*local)->ranks, std::nullopt);
  llvm::Expected<costs::SizedCluster> found = costs::findCluster(options.cluster);
  if (!found)
    return createFlagError("cluster", ": " + llvm::toString(found.takeError()));
  return checkRanks(options, mesh, found->ranks, found->cluster.getMostRanks());
}

/// Checks --num-chunks against the mesh and against a schedule of the table.
static llvm::Error checkChunks(const CompileOptions &options,
                               const schedules::Placement &placement) {
  int64_t chunks = placement.chunks;
  if (placement.ranks == 1 && chunks > 1)
    return createFlagError("num-chunks " + llvm::Twine(chunks),
                           ": several stages per pipeline coordinate need a pipeline axis of at "
                           "least 2, such as pp=2; the mesh is " +
                               options.mesh);
  for (const schedules::Schedule &schedule : schedules::getSchedules()) {
    if (placement.ranks == 1 || schedule.name != options.schedule)
      continue;
    if (chunks < schedule.minChunks)
      return createFlagError("schedule " + options.schedule,
                             " needs at least " + llvm::Twine(schedule.minChunks) +
                                 " chunks per pipeline coordinate, and --num-chunks is " +
                                 llvm::Twine(chunks) + "; add --num-chunks " +
                                 llvm::Twine(schedule.minChunks));
    if (chunks > schedule.maxChunks)
      return createFlagError("schedule " + options.schedule,
                             " takes at most " + llvm::Twine(schedule.maxChunks) +
                                 (schedule.maxChunks == 1 ? " chunk" : " chunks") +
                                 " per pipeline coordinate, and --num-chunks is " +
                                 llvm::Twine(chunks) + "; use --num-chunks " +
                                 llvm::Twine(schedule.maxChunks) + " or another schedule");
  }
  return llvm::Error::success();
}

/// Returns true for a name such as `decode_2`: a letter or `_`, then letters, digits and `_`.
static bool isIdentifier(llvm::StringRef name) {
  auto isPart = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  return !name.empty() && !llvm::isDigit(name.front()) && llvm::all_of(name, isPart);
}

static llvm::Error checkEntries(const CompileOptions &options) {
  llvm::StringSet<> names;
  for (llvm::StringRef entry : options.entries) {
    auto [name, file] = entry.split('=');
    auto fail = [&](const llvm::Twine &message) {
      return createFlagError("entry " + entry, message);
    };
    if (!file.ends_with(".pt2") || !llvm::StringRef(options.model).ends_with(".pt2"))
      return fail(": takes NAME=FILE.pt2, for a model that is a .pt2 file as well");
    if (!isIdentifier(name))
      return fail(": the name of an entry is a letter or _, then letters, digits and _");
    if (import::isReservedEntry(name))
      return fail(": the compiler uses the name '" + name + "'; use another one");
    if (!names.insert(name).second)
      return fail(": the name '" + name + "' is given twice; each entry needs its own name");
    if (!llvm::sys::fs::is_regular_file(file))
      return fail(": '" + file + "' is not a readable file");
  }
  return llvm::Error::success();
}

llvm::Error checkOptions(const CompileOptions &options) {
  auto mesh = parseMesh(options.mesh, options.ranks.value_or(0));
  if (!mesh)
    return createFlagError("mesh", ": " + llvm::toString(mesh.takeError()));
  if (llvm::Error error = checkZero(options, *mesh))
    return error;
  if (llvm::Error error = checkOverlap(options.overlap))
    return error;
  if (llvm::Error error = checkCluster(options, *mesh))
    return error;
  if (llvm::Error error = checkAlignDims(options.alignDims))
    return error;
  if (llvm::Error error = checkMatmulEpilogues(options))
    return error;
  schedules::Placement placement;
  placement.kind =
      options.placement == "v" ? schedules::PlacementKind::V : schedules::PlacementKind::Loop;
  placement.chunks = options.numChunks;
  for (const MeshAxis &axis : *mesh)
    if (axis.kind == ps::AxisKind::Pipeline)
      placement.ranks = axis.size;
  if (llvm::Error error = checkChunks(options, placement))
    return error;
  auto table = schedules::findPipelineSchedule(options.schedule, placement, options.microBatches);
  if (!table)
    return createFlagError("schedule", ": " + llvm::toString(table.takeError()));
  for (const std::string &text : options.optimizers) {
    if (llvm::StringRef path = text; path.consume_front("@")) {
      if (auto groups = readOptimizerFile(path); !groups)
        return groups.takeError();
      continue;
    }
    auto spec = parseOptimizerSpec(text);
    if (!spec)
      return createFlagError("optimizer", " " + llvm::toString(spec.takeError()));
  }
  double norm = 0;
  if (!options.clipNorm.empty() &&
      (llvm::StringRef(options.clipNorm).getAsDouble(norm) || !(float(norm) > 0)))
    return createFlagError("clip-norm", " takes a number above 0 that f32 can hold, not '" +
                                            options.clipNorm + "'");
  double decay = 0;
  if (!options.ema.empty() &&
      (llvm::StringRef(options.ema).getAsDouble(decay) || !(decay > 0 && decay < 1)))
    return createFlagError("ema", " takes a number above 0 and below 1, such as 0.999, not '" +
                                      options.ema + "'");
  if (auto spec = parsePrecision(options.precision); !spec)
    return spec.takeError();
  if (options.gradientReduction != "fp32" && options.gradientReduction != "bf16")
    return createFlagError("gradient-reduction",
                           " takes fp32 or bf16, not '" + options.gradientReduction + "'");
  if (llvm::Error error = checkEntries(options))
    return error;
  if (llvm::Error error = checkRecompute(options.recompute))
    return error;
  if (llvm::Error error = checkOffload(options.offload))
    return error;
  return checkPolicy(options.shardingPolicy);
}

} // namespace parashard::driver
