// Joins and leaves a job, and reports failures to its ranks.
#include "runtime/comm/process/ProcessJob.h"
#include "runtime/comm/process/Mpi.h"
#include "runtime/comm/process/ProcessCommunication.h"
#include "runtime/comm/process/RendezvousFile.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <unistd.h>

namespace psrt {

Comm findComm(const ProcessIdentity &identity) {
  bool pmi = std::getenv("PMI_RANK") || std::getenv("PMIX_RANK");
  switch (identity.launcher) {
  case ProcessIdentity::None:
    return Comm::Local;
  case ProcessIdentity::Mpi:
    return Comm::Mpi;
  case ProcessIdentity::Torchrun:
    return Comm::Tcp;
  case ProcessIdentity::Slurm:
    return pmi ? Comm::Mpi : Comm::Tcp;
  }
  return Comm::Local;
}

ProcessJob::ProcessJob(const ProcessIdentity &identity, Comm comm, const std::string &command)
    : comm(comm), commandHash(hashText(command)) {
  if (comm == Comm::Mpi)
    joinMpi(identity);
  else
    joinTcp(identity);
}

ProcessJob::~ProcessJob() = default;

/// Returns the number of cores for this process, at least 1. All processes of a host that may run
/// on the same cores (`ProcessInfo::cores`) share these cores equally. Sets `dedicated` if each of
/// these processes gets at least one core of its own.
static int shareOfCores(const std::vector<ProcessInfo> &infos, const ProcessInfo &mine,
                        bool &dedicated) {
  int sharers = 0;
  for (const ProcessInfo &info : infos)
    sharers += info.host == mine.host && info.cores == mine.cores;
  dedicated = sharers <= mine.coreCount;
  return std::max(1, mine.coreCount / std::max(1, sharers));
}

void ProcessJob::startMonitor(Rendezvous rendezvous) {
  coreShare = shareOfCores(rendezvous.infos, info, dedicated);
  monitor = std::make_unique<HeartbeatMonitor>(std::move(rendezvous), info.rank, silenceAllowed());
}

namespace {

/// Prints a message and ends the process, unless the timer is destroyed before its timeout. An MPI
/// call that waits for a missing process cannot be interrupted in another way.
class ConnectTimer {
public:
  explicit ConnectTimer(double seconds) : thread([this, seconds] { wait(seconds); }) {}
  ~ConnectTimer() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      isConnected = true;
    }
    wake.notify_all();
    thread.join();
  }

private:
  void wait(double seconds) {
    std::unique_lock<std::mutex> lock(mutex);
    if (wake.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return isConnected; }))
      return;
    std::fprintf(stderr,
                 "error: MPI did not connect the processes within %g s (PSRT_TIMEOUT): one of them "
                 "did not start, or runs another program that does not use MPI\n",
                 seconds);
    _exit(int(StatusCode::Failed));
  }

  std::mutex mutex;
  std::condition_variable wake;
  bool isConnected = false;
  std::thread thread; ///< declared last: the thread uses the members above
};

} // namespace

void ProcessJob::joinMpi(const ProcessIdentity &identity) {
  std::optional<ConnectTimer> deadline(silenceAllowed());
  mpi = std::make_shared<Mpi>();
  if (mpi->getSize() != identity.size)
    PSRT_FAIL(BadArgument,
              "%s is %lld, but MPI (%s) has %d processes; start with that MPI's mpirun, or use "
              "--comm tcp",
              identity.variable.c_str(), (long long)identity.size, mpi->library().c_str(),
              mpi->getSize());
  Socket listener;
  RendezvousInfo posted;
  if (mpi->getRank() == 0) {
    listener = listenAt(0, false);
    if (!listener)
      PSRT_FAIL(Failed, "cannot listen for other ranks: %s", std::strerror(errno));
    posted = makeRendezvousInfo(listener);
  }
  mpi->broadcast(&posted, sizeof(posted));
  deadline.reset();
  info = makeProcessInfo(mpi->getRank(), mpi->getSize(), posted.job);
  info.command = commandHash;
  double seconds = silenceAllowed();
  if (info.rank == 0) {
    startMonitor(hostRendezvous(listener, info, posted.key(), seconds));
  } else {
    startMonitor(
        joinRendezvous(posted.candidates(), info, posted.key(), seconds, posted.describe()));
  }
  transports = makeMpiTransports(*monitor, mpi, dedicated);
  openRanks();
}

static std::string portsOf(const RendezvousAddress &address) {
  std::string first = std::to_string(address.firstPort);
  return address.ports == 1
             ? "port " + first
             : "ports " + first + " to " + std::to_string(address.firstPort + address.ports - 1);
}

static Socket listenForOthers(const RendezvousAddress &address) {
  for (int i = 0; i < address.ports; ++i)
    if (Socket socket = listenAt(uint16_t(address.firstPort + i), address.local))
      return socket;
  PSRT_FAIL(Failed, "rank 0 cannot listen at %s: %s", portsOf(address).c_str(),
            std::strerror(errno));
}

static std::vector<Candidate> candidatesOf(const RendezvousAddress &address) {
  std::vector<Candidate> result;
  for (const std::string &host : address.hosts)
    for (const std::string &numeric : resolve(host))
      for (int i = 0; i < address.ports; ++i)
        result.push_back({numeric, uint16_t(address.firstPort + i)});
  if (result.empty())
    PSRT_FAIL(Failed, "the host of rank 0, \"%s\", does not resolve to an address",
              address.hosts[0].c_str());
  return result;
}

/// Returns "host0 (10.0.0.1) port 29500". The addresses are those to which the host name resolves.
static std::string describe(const RendezvousAddress &meeting,
                            const std::vector<Candidate> &candidates) {
  std::string addresses;
  for (size_t i = 0; i < candidates.size(); i += meeting.ports)
    if (candidates[i].address != meeting.hosts[0])
      addresses += (addresses.empty() ? " (" : ", ") + candidates[i].address;
  return meeting.hosts[0] + addresses + (addresses.empty() ? " " : ") ") + portsOf(meeting);
}

static Rendezvous meetAtPorts(const RendezvousAddress &meeting, const ProcessInfo &info) {
  if (info.rank == 0)
    return hostRendezvous(listenForOthers(meeting), info, meeting.key, silenceAllowed());
  std::vector<Candidate> candidates = candidatesOf(meeting);
  return joinRendezvous(candidates, info, meeting.key, silenceAllowed(),
                        describe(meeting, candidates));
}

/// Runs the rendezvous through a file: rank 0 writes its address to the file, and the other ranks
/// poll the file.
static Rendezvous rendezvousByFile(const std::string &path, ProcessInfo &info, JobKey &key) {
  if (info.rank > 0) {
    auto look = [&path](ProcessInfo &mine, JobKey &itsKey) {
      std::optional<RendezvousInfo> posted = readRendezvousFile(path);
      mine.job = posted ? posted->job : 0;
      itsKey = posted ? posted->key() : JobKey();
      return posted ? posted->candidates() : std::vector<Candidate>();
    };
    return joinRendezvous(look, info, key, silenceAllowed(),
                          "the address in \"" + path + "\" (PSRT_RENDEZVOUS_FILE)");
  }
  Socket listener = listenAt(0, /*local=*/false);
  if (!listener)
    PSRT_FAIL(Failed, "cannot listen for other ranks: %s", std::strerror(errno));
  RendezvousInfo posted = makeRendezvousInfo(listener);
  info.job = posted.job;
  key = posted.key();
  RendezvousFile file(path, posted);
  return hostRendezvous(listener, info, key, silenceAllowed());
}

void ProcessJob::joinTcp(const ProcessIdentity &identity) {
  RendezvousAddress meeting = findRendezvousAddress(identity);
  info = makeProcessInfo(int(identity.rank), int(identity.size), meeting.job);
  info.command = commandHash;
  Socket listener = listenAt(0, meeting.local);
  if (!listener)
    PSRT_FAIL(Failed, "cannot listen for other ranks: %s", std::strerror(errno));
  info.port = portOf(listener);
  Rendezvous rendezvous = meeting.file.empty() ? meetAtPorts(meeting, info)
                                               : rendezvousByFile(meeting.file, info, meeting.key);
  std::vector<MeshPeer> peers;
  for (const ProcessInfo &other : rendezvous.infos)
    peers.push_back({{rendezvous.addressOf(other.rank), other.port}, other.nonce});
  startMonitor(std::move(rendezvous));
  transports = makeTcpTransports(*monitor, std::move(listener), std::move(peers), meeting.key, info,
                                 dedicated);
  openRanks();
}

void ProcessJob::openRanks() {
  std::vector<int> peers;
  for (int rank = 0; rank < info.size; ++rank)
    if (rank != info.rank)
      peers.push_back(rank);
  ranks = transports->open(0, peers);
}

/// Sends `own` to rank 0, which receives the bytes of rank r into spans[r].
static void sendToFirst(Transport &transport, int rank, Span own, const std::vector<Span> &spans,
                        const char *activity = "collecting texts") {
  Exchange exchange;
  for (int from = 1; rank == 0 && from < int(spans.size()); ++from)
    exchange.with(from).in.push_back(spans[from]);
  if (rank != 0)
    exchange.with(0).out.push_back(own);
  if (!exchange.transfers.empty())
    transport.run(exchange, activity);
}

std::vector<std::string> ProcessJob::collect(const std::string &text) {
  uint64_t size = text.size();
  std::vector<uint64_t> sizes(info.size);
  std::vector<Span> spans;
  for (uint64_t &each : sizes)
    spans.push_back({reinterpret_cast<char *>(&each), sizeof(each)});
  sendToFirst(*ranks, info.rank, {reinterpret_cast<char *>(&size), sizeof(size)}, spans);
  std::vector<std::string> texts(info.size, "");
  for (int rank = 0; rank < info.size; ++rank) {
    texts[rank].resize(sizes[rank]);
    spans[rank] = {texts[rank].data(), sizes[rank]};
  }
  texts[0] = text;
  sendToFirst(*ranks, info.rank, {const_cast<char *>(text.data()), size}, spans);
  return info.rank == 0 ? texts : std::vector<std::string>();
}

/// Sends the bytes of rank 0 to all ranks.
static void sendFromFirst(Transport &transport, int rank, int size, Span span,
                          const char *activity) {
  Exchange exchange;
  for (int to = 1; rank == 0 && to < size; ++to)
    exchange.with(to).out.push_back(span);
  if (rank != 0)
    exchange.with(0).in.push_back(span);
  if (!exchange.transfers.empty())
    transport.run(exchange, activity);
}

std::string ProcessJob::broadcast(const std::string &text) {
  std::string result = text;
  uint64_t size = text.size();
  sendFromFirst(*ranks, info.rank, info.size, {reinterpret_cast<char *>(&size), sizeof(size)},
                "broadcasting a text");
  result.resize(size);
  sendFromFirst(*ranks, info.rank, info.size, {result.data(), size}, "broadcasting a text");
  return result;
}

bool ProcessJob::agree(uint64_t value) {
  std::vector<uint64_t> values(info.size);
  std::vector<Span> spans;
  for (uint64_t &each : values)
    spans.push_back({reinterpret_cast<char *>(&each), sizeof(each)});
  values[0] = value;
  sendToFirst(*ranks, info.rank, {reinterpret_cast<char *>(&value), sizeof(value)}, spans,
              "the comparison of calls");
  char equal = std::count(values.begin(), values.end(), value) == info.size; // on rank 0
  sendFromFirst(*ranks, info.rank, info.size, {&equal, 1}, "the comparison of calls");
  return equal;
}

void ProcessJob::barrier() { runBarrier(*ranks, info.rank, info.size); }

std::unique_ptr<Communication> ProcessJob::makeCommunication(const Mesh &mesh,
                                                             const std::vector<Queue> &queues) {
  QueueChannels opened;
  for (const Queue &queue : queues) {
    int channel = channels++;
    if (transports->hasThreads() && !queue.peers.empty())
      opened[queue.name] = transports->open(channel, queue.peers);
  }
  return makeProcessCommunication(mesh, *ranks, std::move(opened), *monitor, nameOf(comm));
}

void ProcessJob::leave() {
  barrier();
  monitor->leave();
  left = true;
  if (mpi)
    mpi->check(mpi->get().finish(), "finishing");
}

bool ProcessJob::fail(const Status &status) {
  JobFailure jobFailure = monitor->report({info.rank, status.code, status.message, true});
  // Every rank prints that a rank is lost, but only the failed rank prints bad input or arguments.
  return status.code == StatusCode::Failed || jobFailure.rank == info.rank;
}

} // namespace psrt
