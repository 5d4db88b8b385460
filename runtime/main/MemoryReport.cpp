// Prints the result of --check-memory at the end of a run.
#include "runtime/main/Parts.h"
#include <sstream>

namespace psrt {

static std::string describe(const Mesh &mesh, const Rank &rank) {
  const MemoryCheck &check = *rank.executor->memoryCheck();
  std::string whose =
      mesh.pipelineSize() == 1 ? "" : format(" of pipeline coordinate %lld", (long long)rank.stage);
  std::string text = format("memory%s: %lld bytes planned, %lld measured", whose.c_str(),
                            (long long)check.getPlanned(), (long long)check.getMeasured());
  if (check.getHostPlanned() > 0)
    text += format("; host: %lld planned, %lld measured", (long long)check.getHostPlanned(),
                   (long long)check.getHostMeasured());
  return text;
}

void printMemoryCheck(Session &session) {
  const Mesh &mesh = session.getProgram().mesh;
  std::string here;
  for (int r = 0; r < mesh.size(); ++r)
    if (const Rank *rank = session.rank(r))
      here += describe(mesh, *rank) + "\n";
  std::set<std::string> lines; // ranks with the same pipeline coordinate have equal lines
  for (const std::string &text : session.collect(here)) {
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);)
      lines.insert(line);
  }
  for (const std::string &line : lines)
    std::printf("%s\n", line.c_str());
}

} // namespace psrt
