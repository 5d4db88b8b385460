// Gathers the report: a list of sections, each with data for one renderer of the page.
#include "parashard/Report.h"
#include "Gather.h"
#include "Page.h"
#include "dialects/ps/Refusal.h"
#include "lib/Fusion/ClassBuffers.h"
#include "lib/IR/Stages.h"
#include "lib/Support/Files.h"
#include "mlir/IR/OwningOpRef.h"
#include "parashard/Driver.h"
#include "parashard/Version.h"

using namespace mlir;
using namespace parashard::driver;
using namespace parashard::support;
namespace json = llvm::json;

namespace parashard::report {
namespace {

/// Lowers a copy of the planned module to level `partitioned`, which adds collectives and class
/// functions. Returns null after an error.
OwningOpRef<ModuleOp> partitionCopy(ModuleOp module) {
  OwningOpRef<ModuleOp> copy = module.clone();
  WalkOptions walk;
  walk.stopAfter = ps::Level::Partitioned;
  if (failed(runWalk(*copy, CompileOptions(), walk)))
    return nullptr;
  return copy;
}

json::Object makeSection(StringRef id, StringRef title, json::Value data) {
  return json::Object{{"id", id}, {"title", title}, {"data", std::move(data)}};
}

/// Gathers the data of the section `pipeline`. Returns nullopt if the plan has no pipelined
/// training step.
llvm::Expected<std::optional<json::Object>> gatherPipeline(ModuleOp module,
                                                           const ReportOptions &options) {
  auto step = planStep(module, options.compile);
  if (!step)
    return step.takeError();
  if (options.measured.empty())
    return *step ? std::optional(report::describePipeline(module, **step, nullptr)) : std::nullopt;
  auto fail = [&](const llvm::Twine &message) {
    return ps::createFlagError("measured \"" + options.measured + "\"", ": " + message);
  };
  if (!*step)
    return fail("the plan has no pipelined training step to compare with");
  auto measured = report::readMeasured(options.measured, **step);
  if (!measured)
    return fail(llvm::toString(measured.takeError()));
  return report::describePipeline(module, **step, &*measured);
}

std::optional<json::Object> gather(ModuleOp module, const ReportOptions &options, ps::Level level) {
  using namespace report;
  auto pipeline = gatherPipeline(module, options);
  if (!pipeline) {
    ps::reportError(module, pipeline.takeError());
    return std::nullopt;
  }
  Work work(module, options.compile.microBatches);
  ParameterSum parameters;
  CollectiveSum collectives;
  // page.js maps these ids to renderers.
  json::Array sections;
  if (options.plans)
    sections.push_back(makeSection("plans", "Plans", listPlans(*options.plans)));
  if (*pipeline)
    sections.push_back(makeSection("pipeline", "Pipeline", std::move(**pipeline)));
  if (json::Array memory = listMemory(module); !memory.empty())
    sections.push_back(makeSection("memory", "Memory", std::move(memory)));
  sections.push_back(makeSection("parameters", "Parameters", listParameters(module, parameters)));
  sections.push_back(makeSection("collectives", "Collectives and reshards",
                                 listCollectives(module, work.getMicroBatches(), collectives)));
  sections.push_back(makeSection("flops", "Flops by layer", work.listFlops()));
  sections.push_back(makeSection("kernels", "Kernels and fusion", work.listClasses()));
  sections.push_back(makeSection("segments", "Segments and classes", work.listSegments()));
  json::Object totals{{"parameters", parameters.count},
                      {"parameter_elements", parameters.elements},
                      {"parameter_bytes", parameters.bytes},
                      {"parameter_local_bytes", parameters.localBytes},
                      {"collectives", collectives.count},
                      {"collective_bytes", collectives.bytes},
                      {"contraction_flops", work.getStep().contraction},
                      {"other_flops", work.getStep().other},
                      {"kernel_calls", work.getKernelCalls()},
                      {"library_calls", work.getLibraryCalls()}};
  std::optional<int64_t> most; // maximum over pipeline coordinates
  for (int64_t pp = 0; pp < ir::getPipelineSize(module); ++pp)
    if (std::optional<int64_t> arena = fusion::getArenaBytes(module, pp))
      most = std::max(most.value_or(0), *arena);
  if (most)
    totals["arena_bytes"] = *most;
  return json::Object{{"version", 1},
                      {"parashard", describeVersion()},
                      {"model", toText(options.compile.model)},
                      {"command", toText(options.line)},
                      {"level", ps::stringifyLevel(level)},
                      {"mesh", listMesh(module)},
                      {"micro_batches", work.getMicroBatches()},
                      {"totals", std::move(totals)},
                      {"sections", std::move(sections)}};
}

} // namespace

std::optional<json::Object> gatherReport(ModuleOp module, const ReportOptions &options) {
  ps::Level level = getLevel(module);
  if (level >= ps::Level::Partitioned)
    return gather(module, options, level);
  if (level < ps::Level::Planned) {
    ps::refuseFlag(module, "report")
        << " needs a plan, but the module is at level " << ps::stringifyLevel(level)
        << "; compile to level planned or later";
    return std::nullopt;
  }
  OwningOpRef<ModuleOp> copy = partitionCopy(module);
  if (!copy)
    return std::nullopt;
  return gather(*copy, options, level);
}

LogicalResult writeReport(ModuleOp module, const ReportOptions &options) {
  std::optional<json::Object> data = gatherReport(module, options);
  if (!data)
    return failure();
  json::Value value(std::move(*data));
  auto write = [&](StringRef flag, const std::string &path,
                   function_ref<void(llvm::raw_ostream &)> print) -> LogicalResult {
    if (path.empty())
      return success();
    if (llvm::Error error = writeAtomically(path, print))
      return ps::refuseFlag(module, flag) << ": " << llvm::toString(std::move(error));
    return success();
  };
  if (failed(write("report", options.path, [&](llvm::raw_ostream &os) {
        report::printPage(value, options.compile.model, os);
      })))
    return failure();
  return write("plan-data", options.data,
               [&](llvm::raw_ostream &os) { os << llvm::formatv("{0:2}\n", value); });
}

} // namespace parashard::report
