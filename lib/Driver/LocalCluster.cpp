// Measures this machine for `--cluster cpu`: runs psrt-probe once, and keeps its cluster file.
#include "dialects/ps/Refusal.h"
#include "lib/Costs/Cluster.h"
#include "lib/Sharding/MeshText.h"
#include "lib/Support/Files.h"
#include "parashard/Driver.h"
#include "parashard/Version.h"
#include "shared/ThisMachine.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/xxhash.h"
#include <cstdlib>
#include <thread>
#include <unistd.h>

namespace parashard::driver {

using llvm::StringRef;

llvm::Expected<std::optional<LocalCluster>> parseLocalCluster(StringRef cluster) {
  auto [name, size] = cluster.split(':');
  if (name != "cpu")
    return std::nullopt;
  LocalCluster result;
  int64_t ranks = 0;
  if (!cluster.contains(':'))
    return result;
  if (size.getAsInteger(10, ranks) || ranks < 1)
    return ps::createFlagError("cluster",
                               ": \"" + size + "\" is not a number of ranks; example: cpu:4");
  result.ranks = ranks;
  return result;
}

/// Creates an error about the cluster `cpu`.
static llvm::Error fail(const llvm::Twine &message) {
  return ps::createFlagError("cluster cpu", ": " + message);
}

/// Returns the path of the cluster file with the figures of this machine. Creates the file's
/// folder.
static llvm::Expected<std::string> findCached(int64_t ranks) {
  std::optional<std::string> folder = support::findCacheFolder();
  if (!folder)
    return fail(
        "neither XDG_CACHE_HOME nor HOME names a folder for the measured figures; set one of them");
  if (std::error_code error = llvm::sys::fs::create_directories(*folder))
    return fail("cannot create " + *folder + " for the measured figures: " + error.message() +
                "; set XDG_CACHE_HOME to a folder that can be written");
  std::string key = llvm::formatv("{0}|{1}|{2}|{3}", findProcessor(),
                                  std::thread::hardware_concurrency(), ranks, getVersion());
  llvm::SmallString<128> path(*folder);
  llvm::sys::path::append(path, llvm::formatv("cpu-{0}-{1}.json", ranks,
                                              llvm::utohexstr(llvm::xxh3_64bits(key), true)));
  return path.str().str();
}

/// Returns the path of psrt-probe, which is in the folder of the running tool.
static llvm::Expected<std::string> findProbe() {
  llvm::SmallString<128> path(
      llvm::sys::fs::getMainExecutable(nullptr, reinterpret_cast<void *>(&findProbe)));
  llvm::sys::path::remove_filename(path);
  llvm::sys::path::append(path, "psrt-probe");
  if (!llvm::sys::fs::can_execute(path))
    return fail(path + ", which measures this machine, is missing; install parashard again (cmake "
                       "--install), or give a cluster file");
  return path.str().str();
}

/// Returns the environment without the variables of launchers such as mpirun. With these variables,
/// psrt-probe would join the job of the launcher that started this tool.
static std::vector<std::string> listEnvironment() {
  std::vector<std::string> result;
  for (char **variable = environ; *variable; ++variable) {
    StringRef name = StringRef(*variable).split('=').first;
    if (!llvm::is_contained({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE", "SLURM_NTASKS"},
                            name))
      result.emplace_back(*variable);
  }
  return result;
}

/// Runs psrt-probe, which writes the cluster file `output`.
static llvm::Error runProbe(StringRef probe, StringRef output, int64_t ranks, ReportText report) {
  llvm::Expected<support::PrivateFolder> scratch = support::PrivateFolder::create();
  if (!scratch)
    return scratch.takeError();
  const char *seconds = std::getenv(kProbeSecondsVariable);
  report(/*isWarning=*/false,
         llvm::formatv("measuring this machine with {0} rank{1} (about {2} s) ...", ranks,
                       ranks == 1 ? "" : "s",
                       seconds ? StringRef(seconds).str()
                               : llvm::formatv("{0:f0}", kProbeSeconds).str())
             .str());
  std::string count = std::to_string(ranks), printed = scratch->name("printed.txt"), message;
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(""), StringRef(printed)};
  std::vector<std::string> variables = listEnvironment();
  llvm::SmallVector<StringRef> environment(variables.begin(), variables.end());
  std::string flag = ps::spellFlag("ranks");
  int status =
      llvm::sys::ExecuteAndWait(probe, {probe, "-o", output, flag, count},
                                llvm::ArrayRef<StringRef>(environment), redirects, 0, 0, &message);
  if (status == 0)
    return llvm::Error::success();
  if (auto buffer = llvm::MemoryBuffer::getFile(printed))
    message += (*buffer)->getBuffer().trim();
  StringRef reason = message;
  reason.consume_front("error: ");
  return fail("psrt-probe failed: " + reason);
}

/// Warns on each use of figures that psrt-probe measured while other programs ran.
static void warnOfDisturbance(StringRef source, StringRef path, ReportText report) {
  size_t note = source.find(kDisturbance);
  if (note != StringRef::npos)
    report(/*isWarning=*/true, (ps::spellFlag("cluster cpu") + ": " + source.substr(note) +
                                "; the figures may be several times too slow; remove \"" + path +
                                "\" when the machine is idle, to measure it again")
                                   .str());
}

llvm::Expected<std::string> measureMachine(int64_t ranks, ReportText report) {
  llvm::Expected<std::string> path = findCached(ranks);
  if (!path)
    return path.takeError();
  // Measures this machine if the file is missing or damaged.
  llvm::Expected<costs::SizedCluster> cached = costs::findCluster(*path);
  if (!cached) {
    llvm::consumeError(cached.takeError());
    llvm::Expected<std::string> probe = findProbe();
    if (!probe)
      return probe.takeError();
    if (llvm::Error error = runProbe(*probe, *path, ranks, report))
      return std::move(error);
    cached = costs::findCluster(*path);
    if (!cached)
      return fail(llvm::toString(cached.takeError()));
  }
  warnOfDisturbance(cached->cluster.source, *path, report);
  return *path;
}

llvm::Error measureLocalCluster(CompileOptions &options, ReportText report) {
  llvm::Expected<std::optional<LocalCluster>> local = parseLocalCluster(options.cluster);
  if (!local)
    return local.takeError();
  if (!*local)
    return llvm::Error::success();
  auto mesh = sharding::parseMesh(options.mesh, options.ranks.value_or(0));
  if (!mesh)
    return mesh.takeError();
  int64_t ranks = 1;
  for (const sharding::MeshAxis &axis : *mesh)
    ranks *= axis.size;
  llvm::Expected<std::string> path = measureMachine(ranks, report);
  if (!path)
    return path.takeError();
  options.cluster = *path;
  return llvm::Error::success();
}

} // namespace parashard::driver
