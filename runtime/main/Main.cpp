// main of a compiled program: flags in, exit status out (0 done, 1 model or data, 2 command line, 3
// a rank failed).
#include "runtime/bootstrap/Processes.h"
#include "runtime/core/Source.h"
#include "runtime/main/Parts.h"
#include <filesystem>
#include <optional>

extern "C" {
extern const char psrt_program_json[];
extern const uint64_t psrt_program_json_size;
extern const psrt::Kernel psrt_program_kernels[];
extern const char psrt_check_program_json[] __attribute__((weak));
extern const uint64_t psrt_check_program_json_size __attribute__((weak));
extern const psrt::Kernel psrt_check_program_kernels[] __attribute__((weak));
}

namespace psrt {

static ProgramSource checkSource() {
  if (!psrt_check_program_json)
    return {};
  return {psrt_check_program_json, psrt_check_program_json_size, psrt_check_program_kernels,
          executableFolder()};
}

/// Each process of a job would train the whole of it, and overwrite what the others write.
static void checkAlone(const ProgramSource &source) {
  ProcessPlace place = findProcessPlace();
  if (place.size > 1)
    PSRT_FAIL(BadArgument,
              "started as process %s of %lld (%s): communication among processes is not built yet; "
              "run it once: ./%s --ranks %lld",
              place.rank.c_str(), (long long)place.size, place.variable.c_str(),
              std::filesystem::read_symlink("/proc/self/exe").filename().c_str(),
              (long long)parseProgram({source.json, source.size}).mesh.size());
}

static int runProgram(const Flags &flags) {
  ProgramSource source{psrt_program_json, psrt_program_json_size, psrt_program_kernels,
                       executableFolder()};
  if (flags.info) {
    printInfo(parseProgram({source.json, source.size}));
    return 0;
  }
  checkAlone(source);
  SessionOptions options;
  options.ranks = flags.ranks;
  options.threads = flags.threads;
  options.seed = flags.seed;
  std::optional<WeightFiles> weights;
  if (!flags.weights.empty())
    options.given = weights.emplace(flags.weights).names();
  Session session(source, options);
  NamedTensors tensors(session.getProgram());
  if (weights)
    for (const std::string &note : loadWeights(session, tensors, *weights))
      std::fprintf(stderr, "note: %s\n", note.c_str());
  applySettings(session, flags);
  if (flags.check)
    return check(session, checkSource(), flags);
  train(session, tensors, flags);
  return 0;
}

} // namespace psrt

int main(int argc, char **argv) {
  psrt::Flags flags;
  if (std::optional<int> status = psrt::parseFlags(argc, argv, flags))
    return *status;
  try {
    return psrt::runProgram(flags);
  } catch (const psrt::Error &error) {
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", error.what());
    return int(error.status.code);
  } catch (const std::exception &error) {
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", error.what());
    return 3;
  }
}
