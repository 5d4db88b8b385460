// Joining, leaving and failing.
#include "runtime/comm/process/ProcessJob.h"
#include "runtime/comm/process/Mpi.h"
#include "runtime/comm/process/ProcessCommunication.h"
#include "runtime/comm/process/RendezvousFile.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <unistd.h>

namespace psrt {

ProcessJob::ProcessJob(const ProcessIdentity &place, const std::string &comm,
                       const std::string &command)
    : comm(comm), command(hashText(command)) {
  if (comm == "mpi")
    joinMpi(place);
  else
    joinTcp(place);
}

ProcessJob::~ProcessJob() = default;

/// The share of the cores that this process has to itself.
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

/// Ends this process with a message unless it is destroyed within a time. A call of MPI that waits
/// for a process that never comes cannot be left otherwise.
class MeetingTimer {
public:
  explicit MeetingTimer(double seconds) : thread([this, seconds] { wait(seconds); }) {}
  ~MeetingTimer() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      isMet = true;
    }
    wake.notify_all();
    thread.join();
  }

private:
  void wait(double seconds) {
    std::unique_lock<std::mutex> lock(mutex);
    if (wake.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return isMet; }))
      return;
    std::fprintf(stderr,
                 "error: MPI has not brought the processes together within %g s (PSRT_TIMEOUT): "
                 "one of them has not come, or is another program that does not start MPI\n",
                 seconds);
    _exit(int(StatusCode::Failed));
  }

  std::mutex mutex;
  std::condition_variable wake;
  bool isMet = false;
  std::thread thread; ///< last: it uses the others
};

} // namespace

void ProcessJob::joinMpi(const ProcessIdentity &place) {
  std::optional<MeetingTimer> deadline(silenceAllowed());
  mpi = std::make_shared<Mpi>();
  if (mpi->getSize() != place.size)
    PSRT_FAIL(
        BadArgument,
        "%s says %lld processes, MPI (%s) says %d; start the program by that MPI's mpirun, or "
        "use --comm tcp",
        place.variable.c_str(), (long long)place.size, mpi->library().c_str(), mpi->getSize());
  Socket listener;
  RendezvousInfo posting;
  if (mpi->getRank() == 0) {
    listener = listenAt(0, false);
    if (!listener)
      PSRT_FAIL(Failed, "cannot listen for the other ranks: %s", std::strerror(errno));
    posting = makeRendezvousInfo(listener);
  }
  mpi->share(&posting, sizeof(posting));
  deadline.reset();
  info = makeProcessInfo(mpi->getRank(), mpi->getSize(), posting.job);
  info.command = command;
  double seconds = silenceAllowed();
  if (info.rank == 0) {
    startMonitor(hostRendezvous(listener, info, posting.key(), seconds));
  } else {
    startMonitor(
        joinRendezvous(posting.candidates(), info, posting.key(), seconds, posting.describe()));
  }
  transports = makeMpiTransports(*monitor, mpi, dedicated);
  openRanks();
}

static std::string portsOf(const RendezvousAddress &place) {
  std::string first = std::to_string(place.firstPort);
  return place.ports == 1
             ? "port " + first
             : "ports " + first + " to " + std::to_string(place.firstPort + place.ports - 1);
}

static Socket listenForOthers(const RendezvousAddress &place) {
  for (int i = 0; i < place.ports; ++i)
    if (Socket socket = listenAt(uint16_t(place.firstPort + i), place.local))
      return socket;
  PSRT_FAIL(Failed, "rank 0 cannot listen at %s: %s", portsOf(place).c_str(), std::strerror(errno));
}

static std::vector<Candidate> candidatesOf(const RendezvousAddress &place) {
  std::vector<Candidate> result;
  for (const std::string &host : place.hosts)
    for (const std::string &address : resolve(host))
      for (int i = 0; i < place.ports; ++i)
        result.push_back({address, uint16_t(place.firstPort + i)});
  if (result.empty())
    PSRT_FAIL(Failed, "the host of rank 0, \"%s\", has no address", place.hosts[0].c_str());
  return result;
}

/// "host0 (10.0.0.1) port 29500": where a name leads may be the mistake.
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

/// Rank 0 says in a file where it listens; the others look into it until they have found it.
static Rendezvous meetByFile(const std::string &path, ProcessInfo &info, JobKey &key) {
  if (info.rank > 0) {
    auto look = [&path](ProcessInfo &mine, JobKey &itsKey) {
      std::optional<RendezvousInfo> posting = readRendezvousFile(path);
      mine.job = posting ? posting->job : 0;
      itsKey = posting ? posting->key() : JobKey();
      return posting ? posting->candidates() : std::vector<Candidate>();
    };
    return joinRendezvous(look, info, key, silenceAllowed(),
                          "what \"" + path + "\" (PSRT_RENDEZVOUS_FILE) says");
  }
  Socket listener = listenAt(0, /*local=*/false);
  if (!listener)
    PSRT_FAIL(Failed, "cannot listen for the other ranks: %s", std::strerror(errno));
  RendezvousInfo posting = makeRendezvousInfo(listener);
  info.job = posting.job;
  key = posting.key();
  RendezvousFile posted(path, posting);
  return hostRendezvous(listener, info, key, silenceAllowed());
}

void ProcessJob::joinTcp(const ProcessIdentity &place) {
  RendezvousAddress meeting = findRendezvousAddress(place);
  info = makeProcessInfo(int(place.rank), int(place.size), meeting.job);
  info.command = command;
  Socket listener = listenAt(0, meeting.local);
  if (!listener)
    PSRT_FAIL(Failed, "cannot listen for the other ranks: %s", std::strerror(errno));
  info.port = portOf(listener);
  Rendezvous rendezvous = meeting.file.empty() ? meetAtPorts(meeting, info)
                                               : meetByFile(meeting.file, info, meeting.key);
  std::vector<MeshPeer> peers;
  for (const ProcessInfo &other : rendezvous.infos)
    peers.push_back({{rendezvous.addressOf(other.rank), other.port}, other.nonce});
  startMonitor(std::move(rendezvous));
  transports = makeTcpTransports(*monitor, std::move(listener), std::move(peers), meeting.key, info,
                                 dedicated);
  openRanks();
}

void ProcessJob::openRanks() {
  std::vector<int> others;
  for (int rank = 0; rank < info.size; ++rank)
    if (rank != info.rank)
      others.push_back(rank);
  ranks = transports->open(0, others);
}

/// Sends `own` from each rank to rank 0, which receives `spans` (by rank).
static void sendToFirst(Transport &transport, int rank, Span own, const std::vector<Span> &spans) {
  Exchange exchange;
  for (int from = 1; rank == 0 && from < int(spans.size()); ++from)
    exchange.with(from).in.push_back(spans[from]);
  if (rank != 0)
    exchange.with(0).out.push_back(own);
  if (!exchange.transfers.empty())
    transport.run(exchange, "collecting texts");
}

std::vector<std::string> ProcessJob::collect(const std::string &text) {
  uint64_t size = text.size();
  std::vector<uint64_t> sizes(info.size);
  std::vector<Span> spans;
  for (uint64_t &one : sizes)
    spans.push_back({reinterpret_cast<char *>(&one), sizeof(one)});
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

void ProcessJob::meet() { meetAll(*ranks, info.rank, info.size); }

std::unique_ptr<Communication> ProcessJob::makeCommunication(const Mesh &mesh,
                                                             const std::vector<Queue> &queues) {
  QueueChannels opened;
  for (const Queue &queue : queues) {
    int channel = channels++;
    if (transports->hasThreads() && !queue.peers.empty())
      opened[queue.name] = transports->open(channel, queue.peers);
  }
  return makeProcessCommunication(mesh, *ranks, std::move(opened), *monitor, comm.c_str());
}

void ProcessJob::leave() {
  meet();
  monitor->leave();
  if (mpi)
    mpi->check(mpi->get().finish(), "finishing");
}

bool ProcessJob::fail(const Status &status) {
  JobFailure jobFailure = monitor->report({info.rank, status.code, status.message, true});
  // A lost rank is worth a line of each; what is wrong with the data is said once.
  return status.code == StatusCode::Failed || jobFailure.rank == info.rank;
}

} // namespace psrt
