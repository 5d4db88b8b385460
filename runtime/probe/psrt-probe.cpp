// psrt-probe: measures this machine, and writes a cluster file for --cluster (docs/planning.md).
// The exit status is the same as for compiled programs.
#include "parashard/Version.h"
#include "runtime/data/OutputFile.h"
#include "runtime/main/FlagTable.h"
#include "runtime/main/Flags.h"
#include "runtime/main/Launch.h"
#include "runtime/main/Parts.h"
#include "runtime/main/Signals.h"
#include "runtime/main/StandardOutput.h"
#include "runtime/probe/ClusterFile.h"
#include "runtime/probe/Kernels.h"
#include "runtime/probe/Prober.h"
#include "runtime/session/Source.h"
#include "shared/ThisMachine.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <thread>

namespace psrt {
namespace {

constexpr const char *kOverview =
    "Measures this machine, and writes a cluster file for ps-compile --cluster and ps-plan "
    "--cluster.\n"
    "  psrt-probe -o cluster.json --ranks 4           ranks as threads of one process\n"
    "  mpirun -n 4 psrt-probe -o cluster.json         ranks as processes, also on several hosts\n"
    "Exit status: 0 success, 1 the cluster file cannot be written, 2 error in the command line,\n"
    "3 a rank or a device failed.";

struct ProbeFlags {
  std::string output;
  int ranks = 0, threads = 0, seconds = 0;
  std::optional<Comm> comm;
  std::string targetName = "cpu";
  Target target;
  bool version = false;
  std::vector<std::string> given;
};

void addProbeFlags(FlagTable &t, ProbeFlags &f) {
  t.addGroup("Output");
  t.add({"o", "FILE.json", "write the cluster to this file"}, f.output);
  t.add({"version", "", "print the version and exit"}, f.version);
  t.addGroup("Ranks");
  t.add({"ranks", "N",
         "number of ranks: threads of this process, or processes of a launcher (default: one per "
         "core, at most 8)"},
        f.ranks, NumberRange{1, 1024});
  addLaunchFlags(t, f.comm, f.threads);
  t.addGroup("Measurement");
  t.add({"target", "TARGET", "cpu or a GPU such as cuda:sm_90 (default: cpu)"}, f.targetName);
  t.add({"seconds", "S",
         "time budget in seconds; a smaller budget gives noisier figures (default: "
         "$PSRT_PROBE_SECONDS, or 40)"},
        f.seconds, NumberRange{1, 3600});
}

void readTarget(ProbeFlags &flags) {
  try {
    flags.target = parseTarget(flags.targetName);
  } catch (const Error &) {
    throw CLI::ValidationError("--target", "\"" + flags.targetName +
                                               "\" is not cpu or a GPU such as cuda:sm_90");
  }
}

std::optional<int> parseProbeFlags(int argc, char **argv, int64_t rank, ProbeFlags &flags) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  FlagTable table(kOverview, "psrt-probe");
  addProbeFlags(table, flags);
  return table.run(rank, [&] {
    refuseEmpty(arguments);
    table.parse(arguments);
    readTarget(flags);
    if (flags.output.empty() && !flags.version)
      throw CLI::ValidationError("no output given; add -o FILE.json");
    flags.given = table.listGiven();
  });
}

/// Returns the time budget in seconds: --seconds, else PSRT_PROBE_SECONDS, else the default.
double findSeconds(const ProbeFlags &flags) {
  if (flags.seconds > 0)
    return flags.seconds;
  const char *text = std::getenv(parashard::kProbeSecondsVariable);
  if (!text)
    return parashard::kProbeSeconds;
  char *end = nullptr;
  double seconds = std::strtod(text, &end);
  if (!*text || *end || !(seconds >= 1 && seconds <= 3600))
    PSRT_FAIL(BadArgument, "PSRT_PROBE_SECONDS is \"%s\"; expected seconds, 1 to 3600", text);
  return seconds;
}

/// Returns the number of ranks: the processes of a launcher, else --ranks, else one rank per core
/// (at most 8).
int64_t findRanks(const ProbeFlags &flags, const ProcessIdentity &identity) {
  if (identity.size > 1 && flags.ranks > 0 && flags.ranks != identity.size)
    PSRT_FAIL(BadArgument,
              "--ranks %d: psrt-probe was started as one of %lld processes (%s); omit the flag",
              flags.ranks, (long long)identity.size, identity.variable.c_str());
  if (identity.size > 1)
    return identity.size;
  constexpr int kMax = 8;
  return flags.ranks > 0 ? flags.ranks
                         : std::clamp(int(std::thread::hardware_concurrency()), 1, kMax);
}

/// Returns how the ranks of a job are distributed over hosts. Fails unless each host has the same
/// number of ranks, with consecutive numbers.
RankLayout findLayout(Job *job, int64_t ranks) {
  if (!job)
    return {1, ranks};
  uint64_t host = makeProcessInfo(job->rank(), job->size(), 0).host;
  std::vector<uint64_t> hosts;
  for (const std::string &text : job->collect(std::to_string(host)))
    hosts.push_back(std::strtoull(text.c_str(), nullptr, 10));
  int64_t perHost = std::count(hosts.begin(), hosts.end(), hosts.empty() ? 0 : hosts.front());
  for (size_t rank = 0; rank < hosts.size(); ++rank)
    if (hosts.size() % size_t(perHost) != 0 ||
        hosts[rank] != hosts[rank / size_t(perHost) * size_t(perHost)])
      PSRT_FAIL(
          BadArgument,
          "the host of rank 0 has %lld of %lld ranks, and another host has a different number "
          "of ranks, or ranks that are not consecutive; start the same number of ranks on "
          "each host, one host after the other",
          (long long)perHost, (long long)ranks);
  Mesh mesh{{{"ranks", AxisKind::Data, ranks}}};
  job->makeCommunication(mesh, {})->broadcast(&perHost, sizeof(perHost), "comparing hosts");
  return {ranks / perHost, perHost};
}

std::string printDate() {
  std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return format("%04d-%02d-%02d", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
}

/// Returns the buffer size in bytes: the size that the figures need, but at most an eighth of the
/// memory of a rank.
int64_t chooseBuffer(const Target &target, const MachineInfo &machine) {
  constexpr int64_t kUnit = 1 << 20, kMin = 16 * kUnit;
  int64_t most = std::max(kMin, int64_t(machine.memory / 8) / kUnit * kUnit);
  return std::min(getBufferBytes(target), most);
}

/// Opens the program of a ProbePlan.
std::unique_ptr<Session> openSession(const ProbePlan &plan, const ProbeFlags &flags, Job *job) {
  ProgramSource source;
  source.json = plan.table.data();
  source.size = plan.table.size();
  source.kernels = probeKernels;
  SessionOptions options;
  options.threads = flags.threads;
  options.job = job;
  options.watch = true;
  options.comm = flags.comm;
  auto session = std::make_unique<Session>(source, options);
  if (job)
    job->stopListening();
  return session;
}

void writeCluster(const std::string &path, const std::string &text) {
  OutputFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

/// Returns a sentence for the user if other programs seem to have disturbed the measurement; else
/// nullopt.
std::optional<std::string> findDisturbance(const Prober &prober, const RankLayout &layout,
                                           int64_t threadsPerRank) {
  const std::vector<CoreUse> &uses = prober.getCoreUses();
  int64_t threads = layout.perHost * threadsPerRank;
  size_t perHost = std::max<size_t>(1, uses.size() / size_t(layout.hosts));
  for (size_t first = 0; first + perHost <= uses.size(); first += perHost)
    if (auto text = describeOthers({uses.begin() + first, uses.begin() + first + perHost}, threads))
      return text;
  // Ranks that share a core disturb each other, as in the programs to be planned. So the spread of
  // such ranks does not show whether other programs run.
  bool haveOwnCores = threads <= int64_t(std::thread::hardware_concurrency());
  return haveOwnCores ? prober.getSpread().describeDisturbance() : std::nullopt;
}

void warnOfDisturbance(const std::string &disturbance) {
  std::fprintf(stderr,
               "warning: %s; the figures may be several times too slow; run psrt-probe again when "
               "the machine is idle\n",
               disturbance.c_str());
}

int probe(const ProbeFlags &flags, int64_t ranks, Job *job) {
  double begin = steadySeconds(), seconds = findSeconds(flags);
  bool isFirst = !job || job->rank() == 0;
  if (isFirst)
    nameFlag("-o", [&] { checkReplaceable(flags.output); });
  RankLayout layout = findLayout(job, ranks);
  MachineInfo machine = findMachine(layout.perHost);
  ProbePlan plan = planProbes(layout, flags.target, parashard::getVersion(),
                              chooseBuffer(flags.target, machine));
  std::unique_ptr<Session> session = openSession(plan, flags, job);
  Prober prober(*session, plan, seconds);
  prober.run();
  if (!isFirst)
    return 0;
  if (DeviceInfo device = session->rank(0)->device->getInfo(); device.memory > 0) {
    machine.model = device.model;
    machine.memory = double(device.memory);
  }
  std::optional<std::string> disturbance =
      findDisturbance(prober, layout, session->threadsPerRank());
  writeCluster(flags.output,
               printCluster(plan.probes, layout, flags.target, machine, printDate(), disturbance));
  if (disturbance)
    warnOfDisturbance(*disturbance);
  std::printf("measured %lld ranks in %.1f s; wrote \"%s\"\n", (long long)layout.size(),
              steadySeconds() - begin, flags.output.c_str());
  return 0;
}

/// Returns the version and the given flags as text, which must be equal in all processes of a job.
std::string describeProbe(const ProbeFlags &flags) {
  std::string text = "psrt-probe " + parashard::describeVersion() + "\n";
  for (const std::string &flag : flags.given)
    text += flag + "\n";
  return text;
}

void printVersion() {
#ifdef PSRT_LLVM_VERSION
  const char *llvm = ", LLVM " PSRT_LLVM_VERSION;
#else
  const char *llvm = ""; // a build of the runtime alone
#endif
  std::printf("Parashard %s%s\n", parashard::describeVersion().c_str(), llvm);
}

int run(const ProbeFlags &flags, const ProcessIdentity &identity) {
  std::unique_ptr<ProcessJob> job;
  int64_t ranks = 1;
  try {
    if (flags.version) {
      if (identity.rank == 0)
        printVersion();
      return 0;
    }
    ranks = findRanks(flags, identity);
    std::optional<Comm> comm = chooseProcessComm(identity, flags.comm, ranks, flags.target);
    if (!comm)
      return probe(flags, ranks, nullptr);
    job = std::make_unique<ProcessJob>(identity, *comm, describeProbe(flags));
  } catch (...) {
    return reportBeforeJob(currentStatus(), identity);
  }
  return runInJob(*job, [&] { return probe(flags, ranks, job.get()); });
}

/// Sets PSRT_COMM_MPI to the path of the MPI library in the lib folder of the build or the
/// installation, unless the variable is already set.
void findMpiLibrary() {
  std::error_code error;
  std::filesystem::path bin = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const char *folder : {"../lib/parashard", "../lib"})
    if (std::filesystem::path library = bin / folder / "libpsrt_comm_mpi.so";
        std::filesystem::exists(library, error))
      setenv("PSRT_COMM_MPI", library.c_str(), /*overwrite=*/0);
}

int runMain(int argc, char **argv) {
  findMpiLibrary(); // before any thread starts
  startSignalThread();
  prepareStandardOutput();
  ProbeFlags flags;
  ProcessIdentity identity = findProcessIdentity();
  if (std::optional<int> status = parseProbeFlags(argc, argv, identity.rank, flags))
    return finishStandardOutput(*status);
  return finishStandardOutput(run(flags, identity));
}

} // namespace
} // namespace psrt

int main(int argc, char **argv) {
  try {
    return psrt::runMain(argc, argv);
  } catch (...) {
    return psrt::reportFailure(psrt::currentStatus(), true);
  }
}
