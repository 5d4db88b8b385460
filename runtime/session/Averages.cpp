// Finds the moving averages and swaps them with the parameters.
#include "runtime/session/Averages.h"
#include "runtime/core/Element.h"
#include "runtime/core/MemoryPieces.h"
#include "runtime/data/WeightFiles.h"
#include <algorithm>
#include <filesystem>

namespace psrt {

bool keepsAverages(const Program &program) {
  return std::any_of(
      program.variables.begin(), program.variables.end(),
      [](const Variable &variable) { return variable.kind == VariableKind::Average; });
}

/// Returns whether the variable counts the steps of a parameter group: "optimizer.0.count".
static bool isStepCount(const Variable &variable) {
  return variable.kind == VariableKind::Optimizer && variable.symbol.starts_with("optimizer.");
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

AveragesInPlace::AveragesInPlace(Session &session) : session(session) {
  const Program &program = session.getProgram();
  for (int i = 0; i < int(program.variables.size()); ++i) {
    const Variable &average = program.variables[i];
    if (average.kind != VariableKind::Average)
      continue;
    int of = program.variable(average.of);
    const Variable &parameter = program.variables.at(of);
    if (parameter.dtype == average.dtype && parameter.placement == average.placement) {
      exchanged.emplace_back(of, i);
      continue;
    }
    int64_t count = parameter.placement.count();
    std::vector<char> whole(count * dtypeSize(average.dtype));
    std::vector<char> converted(count * dtypeSize(parameter.dtype)), old(converted.size());
    session.gatherEverywhere(parameter, old.data());
    session.gatherEverywhere(average, whole.data());
    convertFloats(whole.data(), average.dtype, converted.data(), parameter.dtype, count);
    session.writeVariable(of, converted.data());
    kept.push_back({of, std::move(old)});
  }
  exchangeAll();
}

void AveragesInPlace::restore() {
  exchangeAll();
  for (const Kept &parameter : kept)
    session.writeVariable(parameter.index, parameter.whole.data());
  kept.clear();
}

void AveragesInPlace::exchangeAll() {
  const Program &program = session.getProgram();
  session.parallel([&](Rank &rank) {
    for (auto [of, number] : exchanged) {
      const Variable &parameter = program.variables[of], &average = program.variables[number];
      if (parameter.addresses.isAt(rank.stage))
        exchange(*rank.memory, parameter.addresses.at(rank.stage), average.addresses.at(rank.stage),
                 parameter.localBytes());
    }
  });
  for (auto [of, number] : exchanged)
    refreshCopies(of);
}

/// Updates a copy of a parameter in another dtype. Each rank converts its own elements.
static void convertHere(Session &session, const Variable &parameter, const Variable &copy) {
  session.parallel([&](Rank &rank) {
    if (!copy.addresses.isAt(rank.stage))
      return;
    int64_t from = dtypeSize(parameter.dtype), to = dtypeSize(copy.dtype);
    PieceReader reader(*rank.memory, parameter.addresses.at(rank.stage), parameter.localBytes());
    PieceWriter writer(*rank.memory, copy.addresses.at(rank.stage), copy.localBytes());
    writer.write(0, copy.localBytes() / to, to, [&](char *out, int64_t first, int64_t count) {
      reader.read(first, count, from, [&](const char *in, int64_t at, int64_t n) {
        convertFloats(in, parameter.dtype, out + at * to, copy.dtype, n);
      });
    });
    writer.finish();
  });
}

void AveragesInPlace::refreshCopies(int number) {
  const Program &program = session.getProgram();
  const Variable &parameter = program.variables[number];
  bool isElsewhere = false;
  for (const Variable &copy : program.variables) {
    if (copy.kind != VariableKind::Copy || copy.of != parameter.symbol)
      continue;
    // In this case, every rank that has the copy also has the same elements of the parameter.
    if (copy.placement == parameter.placement && parameter.addresses.covers(copy.addresses))
      convertHere(session, parameter, copy);
    else
      isElsewhere = true;
  }
  if (!isElsewhere)
    return;
  std::vector<char> whole(parameter.placement.count() * dtypeSize(parameter.dtype));
  session.gatherEverywhere(parameter, whole.data());
  session.writeVariable(number, whole.data());
}

std::string averagesPath(const std::string &path) {
  std::filesystem::path result(path);
  if (isWeightFolder(path))
    return (result / "ema").string();
  return result.replace_extension(".ema.safetensors").string();
}

} // namespace psrt
