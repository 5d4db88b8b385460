// Writes the lines of the log.
#include "runtime/main/StepLog.h"
#include "runtime/main/Parts.h"
#include <set>
#include <utility>

namespace psrt {

/// Prefix of the accumulators of further scalar outputs.
static constexpr std::string_view kOutputPrefix = "output.";

/// Returns the log key of an output: its name, or "output.NAME" if the name is a key of the log.
static std::string keyOf(const std::string &output) {
  static const std::set<std::string> own{"step",         "done",      "loss",          "skipped",
                                         "lr",           "grad_norm", "loss_scale",    "step_ms",
                                         "samples_s",    "tokens_s",  "flops_s",       "flops_use",
                                         "peak_flops_s", "eval_loss", "eval_loss_ema", "memory"};
  bool isTaken = own.contains(output) || output.starts_with("lr.");
  return isTaken ? std::string(kOutputPrefix) + output : output;
}

/// Returns the number of tokens per sample: the length of the first input that indexes an embedding
/// table, or 0 if there is none.
static int64_t tokensOf(const Session &session, const EntryPoint &entry) {
  for (const Input *input : session.inputsOf(entry))
    if (input->placement.shape.size() == 2 && input->batchDim == 0 &&
        input->role == InputRole::Data && input->limit > 0)
      return input->placement.shape[1];
  return 0;
}

StepLog::StepLog(Session &session, const std::string &path, int64_t every, int64_t samples,
                 int64_t microBatches)
    : session(session), wanted(!path.empty()), every(every),
      file(session.isFirst() ? path : "",
           session.step > 0 ? LineFile::Keep([from = session.step, every](std::string_view text) {
             return keepLogLines(text, from, every);
           })
                            : LineFile::Keep()),
      samples(samples), microBatches(microBatches),
      tokens(samples * tokensOf(session, session.entry(EntryKind::Step))) {
  for (const Variable &variable : session.getProgram().variables) {
    const std::string &symbol = variable.symbol;
    if (variable.kind == VariableKind::Scalar && (symbol == "lr" || symbol.starts_with("lr.")))
      rates.emplace_back(symbol, session.readScalar(symbol));
    if (variable.kind == VariableKind::Accumulator && symbol.starts_with(kOutputPrefix))
      scalars.emplace_back(keyOf(symbol.substr(kOutputPrefix.size())), symbol);
  }
  if (wanted)
    peak = measurePeak(session);
}

/// Formats a number for JSON: "null" if it is nan or infinite.
static std::string number(double value) {
  return std::isfinite(value) ? format("%.9g", value) : "null";
}

/// Adds the learning rates. "lr" is the rate of the first group; further groups also have their own
/// keys.
void StepLog::addRates(std::string &line, double factor) const {
  if (!rates.empty())
    line += ", \"lr\": " + number(rates.front().second * factor);
  for (const auto &[symbol, base] : rates)
    if (symbol != "lr")
      line += ", " + quoted(symbol) + ": " + number(base * factor);
}

void StepLog::addSpeed(std::string &line, double seconds) const {
  line +=
      format(", \"step_ms\": %.6g, \"samples_s\": %.6g", seconds * 1e3, double(samples) / seconds);
  if (tokens)
    line += format(", \"tokens_s\": %.6g", double(tokens) / seconds);
  double flops = session.getProgram().flopsPerStep / seconds;
  if (flops > 0)
    line += format(", \"flops_s\": %.6g", flops);
  if (flops > 0 && peak > 0)
    line += format(", \"flops_use\": %.4g, \"peak_flops_s\": %.6g", flops / peak, peak);
}

std::vector<std::string> StepLog::getSymbols() const {
  if (!wanted)
    return {};
  std::vector<std::string> result{"grad_norm", "loss_scale"};
  for (const auto &[name, symbol] : scalars)
    result.push_back(symbol);
  return result;
}

void StepLog::write(StepRecord &record) {
  if (!wanted)
    return;
  pending = makeLine(record);
  if ((record.step + 1) % every == 0 || !std::isnan(record.evalLoss))
    file.write(std::exchange(pending, ""));
  else
    file.begin(); // creates the file, with the lines of an earlier run that are kept
}

void StepLog::finish() {
  if (!pending.empty())
    file.write(std::exchange(pending, ""));
  file.finish();
}

std::string StepLog::makeLine(StepRecord &record) {
  std::string line = format("{\"step\": %lld, \"done\": %lld, \"loss\": ", (long long)record.step,
                            (long long)record.step + 1) +
                     number(record.loss) + ", \"skipped\": " + (record.skipped ? "true" : "false");
  addRates(line, record.rateFactor);
  if (session.getProgram().variable("grad_norm") >= 0)
    line += ", \"grad_norm\": " + number(session.readRecorded(*record.scalars, "grad_norm"));
  if (session.getProgram().variable("loss_scale") >= 0)
    line += ", \"loss_scale\": " + number(session.readRecorded(*record.scalars, "loss_scale"));
  addSpeed(line, record.seconds);
  for (const auto &[name, symbol] : scalars)
    line += ", " + quoted(name) + ": " +
            number(session.readRecorded(*record.scalars, symbol) / double(microBatches));
  if (!std::isnan(record.evalLoss))
    line += ", \"eval_loss\": " + number(record.evalLoss);
  if (!std::isnan(record.averagesLoss))
    line += ", \"eval_loss_ema\": " + number(record.averagesLoss);
  return line + format(", \"memory\": %lld}", (long long)session.getProgram().largestArena());
}

} // namespace psrt
