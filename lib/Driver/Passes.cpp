// Lists the passes of each level in order, and explains why each pass is at its position.
#include "lib/Costs/Cluster.h"
#include "parashard/Codegen.h"
#include "parashard/Driver.h"
#include "parashard/Precision.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"

using namespace parashard::precision;

namespace parashard::driver {
namespace {

/// Builds the text of a pass with its options.
class PassText {
public:
  explicit PassText(llvm::StringRef name) : name(name) {}

  PassText &option(llvm::StringRef key, llvm::StringRef value) {
    if (!value.empty())
      options.push_back((key + "=" + quote(value)).str());
    return *this;
  }
  PassText &option(llvm::StringRef key, int64_t value) {
    return option(key, std::to_string(value));
  }
  /// Adds a boolean option if `on` is true.
  PassText &enable(llvm::StringRef key, bool on) { return option(key, on ? "true" : ""); }

  /// Adds an option whose value is a pass pipeline.
  PassText &nest(llvm::StringRef key, llvm::StringRef pipeline) {
    options.push_back((key + "={" + pipeline + "}").str());
    return *this;
  }

  operator std::string() const {
    return options.empty() ? name : name + "{" + llvm::join(options, " ") + "}";
  }

private:
  /// Escapes braces in the strings of a JSON text, since the parser of pass pipelines counts
  /// braces.
  static std::string escapeBraces(llvm::StringRef json) {
    std::string text;
    bool isString = false;
    for (size_t i = 0; i < json.size(); ++i) {
      if (isString && (json[i] == '{' || json[i] == '}')) {
        text += json[i] == '{' ? "\\u007b" : "\\u007d";
        continue;
      }
      text += json[i];
      if (isString && json[i] == '\\' && i + 1 < json.size())
        text += json[++i];
      else if (json[i] == '"')
        isString = !isString;
    }
    return text;
  }

  /// Quotes a value, unless it has only letters, digits and `-_./`. Puts a JSON object in braces
  /// instead.
  static std::string quote(llvm::StringRef value) {
    if (value.starts_with("{")) // the parser of pass pipelines removes the outer braces
      return "{" + escapeBraces(value) + "}";
    bool plain = llvm::all_of(value, [](char c) { return llvm::isAlnum(c) || strchr("-_./", c); });
    return plain ? value.str() : ("\"" + value + "\"").str();
  }

  std::string name;
  std::vector<std::string> options;
};

bool scalesLoss(const CompileOptions &o) {
  llvm::Expected<PrecisionSpec> spec = parsePrecision(o.precision);
  if (!spec)
    return llvm::consumeError(spec.takeError()), false; // ps-precision reports the error
  return spec->scalesLoss() && !o.inference;
}

std::vector<std::string> trainingPasses(const CompileOptions &o) {
  bool adds = !o.loss.empty() && o.loss != "none";
  std::vector<std::string> passes = {PassText("ps-verify-imported")};
  // Runs before folding, which removes inactive dropout.
  if (!o.evalMode && !o.inference)
    passes.push_back(PassText("ps-check-mode"));
  // Gives values to parameters of a meta-device export. Runs before fused weights are split, so
  // that each part inherits the values.
  passes.push_back(PassText("ps-set-initial-values")
                       .option("init", llvm::join(o.init, ";"))
                       .enable("given", o.weights == "none"));
  // Runs before any pass that looks for the loss.
  if (adds)
    passes.push_back(PassText("ps-add-loss").option("kind", o.loss).option("output", o.lossOutput));
  std::vector<std::string> rest = {
      // Turns masks that are provably causal, banded or padding into attributes. Runs before any
      // pass that reads attention's operands.
      PassText("ps-recognize-attention"),
      PassText("ps-recognize-attention-masks"),
      // Turns repeated key / value heads into grouped queries.
      PassText("ps-recognize-grouped-queries"),
      // Turns activations that are written as several ops into one op, whose backward keeps only
      // its input.
      PassText("ps-recognize-activations"),
      // Splits fused weights into one variable per part, so that each part can have its own
      // sharding.
      PassText("ps-split-fused-variables"),
      PassText("canonicalize"),
      PassText("cse"),
      // Finds the roles of labels and token ids, while the loss is still one op and the inputs are
      // those of the model.
      PassText("ps-recognize-labels"),
      // Adds the backward, the accumulators and the entries.
      PassText("ps-autodiff")
          .option("loss", o.loss == "none" ? "none"
                          : adds           ? "loss"
                                           : o.lossOutput)
          .option("differentiate", llvm::join(o.differentiate, ";"))
          .option("freeze", llvm::join(o.freeze, ";"))
          .option("loss-average", o.lossAverage)
          .option("batch-dims", llvm::join(o.batchDims, ";"))
          .enable("eval-mode", o.evalMode)
          // Scales the loss for f16, in which small cotangents would vanish.
          .enable("scale-loss", scalesLoss(o))
          .enable("inference", o.inference)
          .option("keep-outputs", llvm::join(o.keepOutputs, ";")),
      // Folds parts of backward that depend only on constants. Unlike `canonicalize`, copies phases
      // and other marks to new ops.
      PassText("ps-canonicalize"),
  };
  llvm::append_range(passes, rest);
  // Adds the update of each parameter by its group's optimizer.
  if (!o.inference)
    passes.push_back(PassText("ps-optimizer")
                         .option("optimizer", llvm::join(o.optimizers, ";"))
                         .option("clip-norm", o.clipNorm)
                         .option("ema", o.ema));
  // Counts flops for the model-flops utilization, while tensors are unsharded.
  passes.push_back(PassText("ps-count-flops"));
  passes.push_back(PassText("ps-verify-training"));
  return passes;
}

/// Returns the cluster whose rates the passes use.
llvm::StringRef getCluster(const CompileOptions &o) {
  return o.cluster.empty() ? costs::getDefaultPreset(o.target) : llvm::StringRef(o.cluster);
}

/// Returns the method that divides layers into stages. With `--cluster`, stages are balanced by the
/// predicted times of layers.
llvm::StringRef getSplitMethod(const CompileOptions &o) {
  if (!o.splitMethod.empty())
    return o.splitMethod;
  return o.cluster.empty() ? "uniform" : "time";
}

/// Lists the passes that turn a plan into addresses.
std::string listPassesAfterPlan(const CompileOptions &o) {
  std::vector<std::string> passes;
  for (ps::Level level : {ps::Level::Partitioned, ps::Level::Scheduled, ps::Level::Placed})
    for (std::string &pass : getPasses(level, o))
      if (isTransform(pass))
        passes.push_back(std::move(pass));
  return llvm::join(passes, ",");
}

PassText makeRecompute(const CompileOptions &o) {
  PassText pass("ps-recompute");
  pass.option("mode", o.recompute);
  if (llvm::StringRef(o.recompute).starts_with("budget="))
    pass.nest("then", listPassesAfterPlan(o));
  return pass;
}

/// Builds ps-align-dims. GPU matmuls load 16 bytes at once, and 8-bit matmuls need dims that are
/// multiples of 16.
PassText makeAlignDims(const CompileOptions &o) {
  constexpr int64_t kOfGpu = 16, kAnyWaste = 100000;
  PassText pass("ps-align-dims");
  if (o.alignDims != "auto")
    return pass.option("multiple", o.alignDims == "off" ? "1" : o.alignDims)
        .option("max-waste", kAnyWaste);
  return pass.option("multiple", llvm::StringRef(o.target).starts_with("cuda") ? kOfGpu : 1);
}

std::vector<std::string> plannedPasses(const CompileOptions &o) {
  PassText mesh("ps-set-mesh");
  mesh.option("mesh", o.mesh);
  if (o.ranks)
    mesh.option("ranks", *o.ranks);
  mesh.option("cluster", getCluster(o));
  return {
      mesh,
      // Runs after ps-set-mesh, because the mesh determines whether gradients are reduced over
      // ranks. Runs before the other passes, because sharding, saved values and recomputation
      // depend on types.
      PassText("ps-precision")
          .option("precision", o.precision)
          .option("gradient-reduction", o.gradientReduction)
          .option("zero", o.zero),
      // Converts constants to their new type, and removes pairs of inverse conversions.
      PassText("ps-canonicalize"),
      // The policy seeds parameters and inputs. Propagation derives the other shardings.
      PassText("ps-seed-shardings").option("policy", o.shardingPolicy),
      // Runs after seeding, because padding depends on the size of each dim per rank.
      makeAlignDims(o),
      PassText("ps-propagate-shardings").option("zero", o.zero),
      // Runs after propagation, because equal blocks then have equal shardings.
      PassText("ps-find-segments"),
      // Groups segments into stages.
      PassText("ps-partition-pipeline")
          .option("method", getSplitMethod(o))
          .option("chunks", o.numChunks)
          .option("placement", o.placement),
      // Runs after the segments are found, because a chain of recomputed ops stays within its
      // segment. Runs after stages are formed, because a memory budget applies to each pipeline
      // coordinate.
      makeRecompute(o),
      // Records the explanation now, because later levels do not have the shardings of values. The
      // next level adds the collectives.
      PassText("ps-explain-shardings").option("record", "true"),
      PassText("ps-explain-pipeline").option("record", "true"),
      PassText("ps-verify-planned"),
  };
}

std::vector<std::string> partitionedPasses(const CompileOptions &o) {
  // Maximum number of chunks into which a reduction over rows is split. A chunk occupies few warps,
  // so a GPU needs many chunks.
  constexpr int64_t kChunksOfGpu = 1024;
  PassText fuse("ps-fuse");
  bool isGpu = llvm::StringRef(o.target).starts_with("cuda");
  bool activates = o.matmulEpilogues == "on";
  if (isGpu)
    fuse.option("max-chunks", kChunksOfGpu)
        .enable("biases", true)
        .enable("activations", activates)
        .enable("sums", true)
        .enable("float8", codegen::multipliesFloat8(o.target));
  std::vector<std::string> passes = {
      PassText("ps-partition"),
      // Removes pairs of reshards that cancel, and merges pairs of collectives into one.
      PassText("ps-simplify-collectives"),
      // Explains the collectives after they are final and before equal segments are merged.
      PassText("ps-explain-collectives").option("record", "true"),
      // Runs before ps-outline-segments. Runs after ps-explain-collectives, so that the explanation
      // lists each collective once, and not once per coordinate.
      PassText("ps-split-stages"),
      // Runs before ps-outline-segments, so that a segment saves the result that attention writes.
      PassText("ps-transpose-attention"),
  };
  // Moves bias gradients to the phase of the weight-gradient matmuls that can compute them. Runs
  // before ps-outline-segments, which creates one function per phase.
  if (isGpu)
    passes.push_back(PassText("ps-defer-sums").enable("activations", activates));
  // The following passes process each class of equal segments once.
  llvm::append_range(passes, std::vector<std::string>{PassText("ps-outline-segments"), fuse});
  // Runs after fusion, when the kernels that can overlap with collectives are known.
  if (o.overlap != "off")
    passes.push_back(
        PassText("ps-start-collectives").option("chunks", o.overlap == "auto" ? "" : o.overlap));
  passes.push_back(PassText("ps-verify-partitioned"));
  return passes;
}

std::vector<std::string> scheduledPasses(const CompileOptions &o) {
  std::vector<std::string> passes = {PassText("ps-schedule")
                                         .option("micro-batches", o.microBatches)
                                         .option("schedule", o.schedule),
                                     // Runs after ps-schedule, which fixes the order of all runs.
                                     PassText("ps-overlap-collectives")};
  // Runs after ps-schedule, because the scheduled program shows when each value is used. Runs
  // before memory planning.
  if (!o.offload.empty() && o.offload != "none" && !o.inference)
    passes.push_back(PassText("ps-offload").option("what", o.offload));
  passes.push_back(PassText("ps-verify-scheduled"));
  return passes;
}

} // namespace

bool isTransform(llvm::StringRef pass) {
  return !pass.starts_with("ps-verify-") && !pass.starts_with("ps-explain-");
}

std::vector<std::string> getPasses(ps::Level level, const CompileOptions &o) {
  switch (level) {
  case ps::Level::Training:
    return trainingPasses(o);
  case ps::Level::Planned:
    return plannedPasses(o);
  case ps::Level::Partitioned:
    return partitionedPasses(o);
  case ps::Level::Scheduled:
    return scheduledPasses(o);
  case ps::Level::Placed:
    // If the host calls forward and backward separately (C API), all micro-batches of a step may be
    // pending at the same time.
    return {PassText("ps-plan-memory").option("slots", std::max<int64_t>(16, o.microBatches)),
            PassText("ps-verify-placed")};
  case ps::Level::Imported:
  case ps::Level::Native:
    break; // created by an importer or by code generation
  }
  return {};
}

} // namespace parashard::driver
