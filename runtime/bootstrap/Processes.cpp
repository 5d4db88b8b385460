// Reads the environment variables that launchers set.
#include "runtime/bootstrap/Processes.h"
#include "runtime/bootstrap/Socket.h"
#include "runtime/core/Status.h"
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace psrt {
namespace {

/// The variables of each launcher: number of processes, and rank of this process. mpirun comes
/// first, since a job script may set torchrun's variables too.
constexpr struct {
  ProcessIdentity::Launcher launcher;
  const char *size, *rank;
} kLaunchers[] = {{ProcessIdentity::Mpi, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                  {ProcessIdentity::Mpi, "PMI_SIZE", "PMI_RANK"},
                  {ProcessIdentity::Torchrun, "WORLD_SIZE", "RANK"},
                  {ProcessIdentity::Slurm, "SLURM_NTASKS", "SLURM_PROCID"}};

/// Returns whether this process was started by a Slurm batch script without srun. SLURM_NTASKS is
/// then not the number of processes.
bool isBatchScript() { return std::getenv("SLURM_JOB_ID") && !std::getenv("SLURM_STEP_ID"); }

std::string variable(const char *name) {
  const char *text = std::getenv(name);
  return text ? text : "";
}

/// Returns the value of a variable that a launcher sets, or nullopt if the variable is not set.
/// Fails if the value is not a whole number.
std::optional<int64_t> number(const char *name) {
  const char *text = std::getenv(name);
  if (!text || !*text)
    return std::nullopt;
  int64_t value = 0;
  const char *end = text + std::strlen(text);
  auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end)
    PSRT_FAIL(BadArgument, "%s is \"%s\", not a whole number", name, text);
  return value;
}

/// Fails if a rank or a number of processes is less than `least` or does not fit an int.
void checkNumber(const char *name, int64_t value, int64_t least) {
  if (value < least || value > INT32_MAX)
    PSRT_FAIL(BadArgument, "%s is %lld; expected %lld to %d, as torchrun or mpirun sets it", name,
              (long long)value, (long long)least, INT32_MAX);
}

/// Sets the id and the key of the job. Without PSRT_JOB_SECRET, anyone who knows `identity` can
/// compute the key.
void nameJob(RendezvousAddress &result, const std::string &identity) {
  result.job = hashText(identity);
  result.key = makeJobKey(jobSecret(), identity);
}

/// Returns the rendezvous at MASTER_ADDR and MASTER_PORT.
RendezvousAddress findAtMaster(const ProcessIdentity &identity) {
  RendezvousAddress result;
  std::string address = variable("MASTER_ADDR"), port = variable("MASTER_PORT");
  long number = std::strtol(port.c_str(), nullptr, 10);
  if (address.empty() || number < 1 || number > 65535)
    PSRT_FAIL(BadArgument,
              "started as rank %lld of %lld (%s), but MASTER_ADDR is \"%s\" and MASTER_PORT is "
              "\"%s\"; set them to the host and a port of rank 0, or PSRT_RENDEZVOUS_FILE to a "
              "file that all hosts share, or start with torchrun or mpirun",
              (long long)identity.rank, (long long)identity.size, identity.variable.c_str(),
              address.c_str(), port.c_str());
  result.hosts = {address};
  result.local = isLoopback(address);
  result.firstPort = uint16_t(number);
  if (variable("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    result.firstPort = uint16_t(number + 1); // torchrun's agent listens at MASTER_PORT
    result.ports = 32;
  }
  std::string id = address + "|" + port;
  for (const char *part : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID"})
    id += "|" + variable(part);
  nameJob(result, id + "|" + std::to_string(identity.size));
  return result;
}

/// Returns the rendezvous on the first node of a Slurm job.
RendezvousAddress findAtFirstNode(const ProcessIdentity &identity) {
  RendezvousAddress result;
  std::string nodes = variable("SLURM_STEP_NODELIST");
  if (nodes.empty())
    nodes = variable("SLURM_JOB_NODELIST");
  if (nodes.empty())
    PSRT_FAIL(
        BadArgument,
        "started as rank %lld of %lld (%s), but none of MASTER_ADDR, PSRT_RENDEZVOUS_FILE and "
        "SLURM_STEP_NODELIST is set to locate rank 0",
        (long long)identity.rank, (long long)identity.size, identity.variable.c_str());
  result.hosts = {firstSlurmHost(nodes)};
  std::string id = variable("SLURM_JOB_ID") + "." + variable("SLURM_STEP_ID");
  nameJob(result, id + "|" + nodes + "|" + std::to_string(identity.size));
  result.firstPort =
      uint16_t(20000 + hashText(id) % 12000); // below Linux's ephemeral ports, which begin at 32768
  result.ports = 32;
  return result;
}

} // namespace

ProcessIdentity findProcessIdentity() {
  for (const auto &launcher : kLaunchers) {
    if (launcher.launcher == ProcessIdentity::Slurm && isBatchScript())
      continue;
    std::optional<int64_t> size = number(launcher.size), rank = number(launcher.rank);
    if (size)
      checkNumber(launcher.size, *size, 1);
    if (rank && size.value_or(1) > 1)
      checkNumber(launcher.rank, *rank, 0);
    if (size.value_or(0) > 1 && (rank || launcher.launcher != ProcessIdentity::Slurm))
      return {launcher.launcher, rank.value_or(0), *size, rank.has_value(), launcher.size};
  }
  return {};
}

RendezvousAddress findRendezvousAddress(const ProcessIdentity &identity) {
  if (!identity.rankKnown || identity.rank < 0 || identity.rank >= identity.size)
    PSRT_FAIL(BadArgument, "%s is %lld, but the rank of this process is %s",
              identity.variable.c_str(), (long long)identity.size,
              identity.rankKnown ? std::to_string(identity.rank).c_str() : "not set (RANK)");
  if (std::string file = variable("PSRT_RENDEZVOUS_FILE"); !file.empty()) {
    RendezvousAddress result;
    result.file = std::move(file);
    return result;
  }
  if (identity.launcher == ProcessIdentity::Slurm && !std::getenv("MASTER_ADDR"))
    return findAtFirstNode(identity);
  return findAtMaster(identity);
}

std::string firstSlurmHost(const std::string &list) {
  size_t end = list.find_first_of("[,");
  std::string name = list.substr(0, end);
  if (end == std::string::npos || list[end] == ',')
    return name;
  size_t stop = list.find_first_of("-,]", end);
  return name + list.substr(end + 1, stop - end - 1);
}

uint64_t hashText(const std::string &text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

double silenceAllowed() {
  const char *text = std::getenv("PSRT_TIMEOUT");
  if (!text)
    return 60;
  char *end = nullptr;
  double seconds = std::strtod(text, &end);
  if (!*text || *end || !(seconds >= 1 && seconds <= 1e6))
    PSRT_FAIL(BadArgument, "PSRT_TIMEOUT is \"%s\"; expected seconds, 1 to 1000000", text);
  return seconds;
}

} // namespace psrt
