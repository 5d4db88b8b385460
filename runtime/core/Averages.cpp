// Finding averages, and putting them in the place of the parameters.
#include "runtime/core/Averages.h"
#include "runtime/core/MemoryPieces.h"
#include "runtime/data/WeightFiles.h"
#include <algorithm>
#include <filesystem>

namespace psrt {

bool keepsAverages(const Program &program) {
  return std::any_of(program.variables.begin(), program.variables.end(),
                     [](const Variable &variable) { return variable.kind == "average"; });
}

/// "optimizer.0.count": the steps that a group of parameters has taken.
static bool isStepCount(const Variable &variable) {
  return variable.kind == "optimizer" && variable.symbol.rfind("optimizer.", 0) == 0;
}

bool hasAverages(Session &session) {
  const Program &program = session.getProgram();
  if (!keepsAverages(program))
    return false;
  double steps = 0;
  for (const Variable &variable : program.variables)
    if (isStepCount(variable))
      steps = std::max(steps, session.readScalar(variable.symbol));
  return steps > 0;
}

void exchangeAverages(Session &session) {
  const Program &program = session.getProgram();
  session.parallel([&](Rank &rank) {
    for (const Variable &average : program.variables) {
      if (average.kind != "average")
        continue;
      const Variable &parameter = program.variables.at(program.variable(average.of));
      if (parameter.dtype != average.dtype || !(parameter.placement == average.placement))
        PSRT_FAIL(
            BadArgument,
            "\"%s\" and its average differ in dtype or layout; to evaluate the average of such "
            "a parameter is not built",
            parameter.displayName().c_str());
      if (!parameter.addresses.isAt(rank.stage))
        continue;
      exchange(*rank.memory, parameter.addresses.at(rank.stage), average.addresses.at(rank.stage),
               parameter.localBytes());
    }
  });
}

std::string averagesPath(const std::string &path) {
  std::filesystem::path result(path);
  if (isWeightFolder(path))
    return (result / "ema").string();
  return result.replace_extension(".ema.safetensors").string();
}

} // namespace psrt
