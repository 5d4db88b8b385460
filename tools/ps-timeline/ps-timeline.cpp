// ps-timeline: shows a measured pipeline step as text and as an SVG, and simulates other schedules
// with the measured stage times.
#include "dialects/ps/Refusal.h"
#include "tools/CommandLine.h"

#include "lib/Schedules/Timeline.h"
#include "lib/Schedules/Trace.h"
#include "lib/Support/Files.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace parashard;
using namespace parashard::support;

namespace {

constexpr StringLiteral kOverview =
    R"(shows a measured step of a pipeline, and simulates other schedules

EXAMPLES
  ./program --data tokens.bin --steps 5 --trace trace.json
  ps-timeline trace.json                                        print stages, bubble and saved activations
  ps-timeline trace.json -o step.svg                            draw the median step
  ps-timeline trace.json --schedule zb-h1 --hop 0.3             simulate another schedule with the measured times

Exit status: 0 success, 1 error in the trace, 2 error in the command line.
)";

struct Options {
  cl::OptionCategory category{"ps-timeline"};
  cl::opt<std::string> trace{cl::Positional, cl::desc("TRACE.json"), cl::cat(category)};
  cl::opt<std::string> output{"o",
                              cl::desc("draw the median step, or the step that --step selects"),
                              cl::value_desc("FILE.svg"), cl::cat(category)};
  cl::opt<int64_t> step{"step", cl::desc("show this step instead of the median step"),
                        cl::value_desc("N"), cl::init(-1), cl::cat(category)};
  cl::opt<std::string> schedule{
      "schedule",
      cl::desc("also simulate this schedule (a name or FILE.json) with the measured times of the "
               "stages"),
      cl::value_desc("NAME"), cl::cat(category)};
  cl::opt<double> hop{"hop", cl::desc("time of a message in the simulation, in ms (default: 0)"),
                      cl::value_desc("MS"), cl::init(0), cl::cat(category)};
  cl::opt<int64_t> microBatches{"micro-batches",
                                cl::desc("micro-batches in the simulation (default: as traced)"),
                                cl::value_desc("N"), cl::init(0), cl::cat(category)};
};

int fail(ExitStatus status, const Twine &message) {
  errs() << "ps-timeline: error: " << message << "\n";
  return status;
}

int failFlag(const Twine &flag, const Twine &message) {
  return fail(BadCommandLine, toString(ps::createFlagError(flag, message)));
}

void printStages(const schedules::MeasuredPipeline &measured, const schedules::MeasuredStep &step) {
  outs() << formatv(
      "{0} stages on {1} pipeline coordinates, {2} micro-batches, {3} steps; times in ms\n",
      measured.placement.getNumStages(), measured.placement.ranks, measured.microBatches,
      measured.steps.size());
  outs() << "  stage  pp  forward   backward-input  backward-weight\n";
  for (auto [stage, times] : enumerate(measured.stages))
    outs() << formatv("  {0,-5}  {1,-2}  {2,-8:f3}  {3,-14:f3}  {4:f3}\n", stage,
                      measured.placement.getRank(stage), times.forward, times.backwardInput,
                      times.backwardWeight);
  outs() << formatv(
      "step {0}: {1:f3} ms until the last backward ends, bubble {2:f1} %, update {3:f3} ms\n",
      step.number, step.run.makespan, 100 * step.run.bubble, step.update);
  for (auto [coordinate, live] : enumerate(step.run.peakLive))
    outs() << formatv("  pp {0}: saved activations of at most {1} micro-batches at once\n",
                      coordinate, live);
}

int simulate(const schedules::MeasuredPipeline &measured, const Options &options) {
  int64_t count = options.microBatches ? options.microBatches : measured.microBatches;
  auto table = schedules::findPipelineSchedule(options.schedule, measured.placement, count);
  if (!table)
    return failFlag("schedule", ": " + toString(table.takeError()));
  auto replay = schedules::replay(*table, {measured.stages, options.hop});
  if (!replay)
    return failFlag("schedule", ": " + toString(replay.takeError()));
  outs() << formatv("simulated {0}, {1} micro-batches, {2:f3} ms per hop: {3:f3} ms until the "
                    "last backward ends, bubble {4:f1} %, {5:f3} ms with the update\n",
                    options.schedule, count, options.hop.getValue(), replay->makespan,
                    100 * replay->bubble, replay->makespan + measured.update);
  return Done;
}

int draw(const schedules::MeasuredPipeline &measured, const schedules::MeasuredStep &step,
         const std::string &path) {
  schedules::TimelineOptions timeline;
  timeline.title = formatv("measured step {0}, {1} stages on {2} pipeline coordinates, {3} "
                           "micro-batches",
                           step.number, measured.placement.getNumStages(), measured.placement.ranks,
                           measured.microBatches);
  timeline.unit = "ms";
  if (Error error = writeAtomically(
          path, [&](raw_ostream &os) { schedules::writeTimeline(step.run, timeline, os); }))
    return fail(BadCommandLine, toString(std::move(error)));
  return Done;
}

int show(const Options &options) {
  auto buffer = MemoryBuffer::getFile(options.trace, /*IsText=*/false,
                                      /*RequiresNullTerminator=*/false);
  if (!buffer)
    return fail(BadCommandLine,
                "\"" + options.trace + "\": cannot be read: " + buffer.getError().message());
  auto measured = schedules::readTrace((*buffer)->getBuffer());
  if (!measured)
    return fail(Failed, "\"" + options.trace + "\": " + toString(measured.takeError()));
  const schedules::MeasuredStep *step = &measured->getTypicalStep();
  if (options.step.getNumOccurrences()) {
    auto found = find_if(measured->steps, [&](const schedules::MeasuredStep &candidate) {
      return candidate.number == options.step;
    });
    if (found == measured->steps.end())
      return failFlag("step " + Twine(options.step),
                      ": the trace has steps " + Twine(measured->steps.front().number) + " to " +
                          Twine(measured->steps.back().number));
    step = &*found;
  }
  printStages(*measured, *step);
  if (!options.schedule.empty())
    if (int status = simulate(*measured, options))
      return status;
  return options.output.empty() ? int(Done) : draw(*measured, *step, options.output);
}

} // namespace

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  parashard::reportFailedWrites();
  Options options;
  cl::HideUnrelatedOptions(options.category);
  if (!parashard::parseTool(argc, argv, kOverview))
    return BadCommandLine;
  if (options.trace.empty())
    return fail(BadCommandLine, "no trace given; a program writes one with --trace FILE.json");
  constexpr double kMaxHop = 1e6; // in ms
  if (!(options.hop >= 0 && options.hop <= kMaxHop))
    return failFlag("hop", formatv(" takes milliseconds from 0 to {0}", kMaxHop).str());
  if (options.microBatches.getNumOccurrences() &&
      (options.microBatches < 1 || options.microBatches > schedules::kMaxMicroBatches))
    return failFlag("micro-batches",
                    " takes a number from 1 to " + Twine(schedules::kMaxMicroBatches));
  if (options.schedule.empty() &&
      (options.hop.getNumOccurrences() || options.microBatches.getNumOccurrences()))
    return failFlag("hop", " and --micro-batches need --schedule");
  if (!options.output.empty()) {
    Expected<std::string> output = findOutputFile(options.output);
    if (!output)
      return fail(BadCommandLine, toString(output.takeError()));
    options.output = *output;
    InputFile trace{options.trace.getValue(), "is the trace itself"};
    if (Error error = checkOutputFile(trace, options.output))
      return fail(BadCommandLine, toString(std::move(error)));
  }
  return show(options);
}
