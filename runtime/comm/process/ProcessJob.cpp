// Joining, leaving and failing.
#include "runtime/comm/process/ProcessJob.h"
#include "runtime/comm/process/Mpi.h"
#include "runtime/comm/process/Notice.h"
#include "runtime/comm/process/ProcessCommunication.h"
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

ProcessJob::ProcessJob(const ProcessPlace &place, const std::string &comm,
                       const std::string &command)
    : comm(comm), command(hashText(command)) {
  if (comm == "mpi")
    joinMpi(place);
  else
    joinTcp(place);
}

ProcessJob::~ProcessJob() = default;

/// The share of the cores that this process has to itself.
static int shareOfCores(const std::vector<ProcessCard> &cards, const ProcessCard &mine,
                        bool &dedicated) {
  int sharers = 0;
  for (const ProcessCard &card : cards)
    sharers += card.host == mine.host && card.cores == mine.cores;
  dedicated = sharers <= mine.coreCount;
  return std::max(1, mine.coreCount / std::max(1, sharers));
}

void ProcessJob::startWatch(Star star) {
  coreShare = shareOfCores(star.cards, card, dedicated);
  watch = std::make_unique<Watch>(std::move(star), card.rank, silenceAllowed());
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

void ProcessJob::joinMpi(const ProcessPlace &place) {
  std::optional<MeetingTimer> deadline(silenceAllowed());
  mpi = std::make_shared<Mpi>();
  if (mpi->getSize() != place.size)
    PSRT_FAIL(
        BadArgument,
        "%s says %lld processes, MPI (%s) says %d; start the program by that MPI's mpirun, or "
        "use --comm tcp",
        place.variable.c_str(), (long long)place.size, mpi->library().c_str(), mpi->getSize());
  Socket listener;
  Notice notice;
  if (mpi->getRank() == 0) {
    listener = listenAt(0, false);
    if (!listener)
      PSRT_FAIL(Failed, "cannot listen for the other ranks: %s", std::strerror(errno));
    notice = makeNotice(listener);
  }
  mpi->share(&notice, sizeof(notice));
  deadline.reset();
  card = makeCard(mpi->getRank(), mpi->getSize(), notice.job);
  card.command = command;
  double seconds = silenceAllowed();
  if (card.rank == 0) {
    startWatch(gatherStar(listener, card, notice.key(), seconds));
  } else {
    startWatch(joinStar(notice.candidates(), card, notice.key(), seconds, notice.describe()));
  }
  transports = makeMpiTransports(*watch, mpi, dedicated);
  openRanks();
}

static std::string portsOf(const Rendezvous &place) {
  std::string first = std::to_string(place.firstPort);
  return place.ports == 1
             ? "port " + first
             : "ports " + first + " to " + std::to_string(place.firstPort + place.ports - 1);
}

static Socket listenForOthers(const Rendezvous &place) {
  for (int i = 0; i < place.ports; ++i)
    if (Socket socket = listenAt(uint16_t(place.firstPort + i), place.local))
      return socket;
  PSRT_FAIL(Failed, "rank 0 cannot listen at %s: %s", portsOf(place).c_str(), std::strerror(errno));
}

static std::vector<Candidate> candidatesOf(const Rendezvous &place) {
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
static std::string describe(const Rendezvous &meeting, const std::vector<Candidate> &candidates) {
  std::string addresses;
  for (size_t i = 0; i < candidates.size(); i += meeting.ports)
    if (candidates[i].address != meeting.hosts[0])
      addresses += (addresses.empty() ? " (" : ", ") + candidates[i].address;
  return meeting.hosts[0] + addresses + (addresses.empty() ? " " : ") ") + portsOf(meeting);
}

static Star meetAtPorts(const Rendezvous &meeting, const ProcessCard &card) {
  if (card.rank == 0)
    return gatherStar(listenForOthers(meeting), card, meeting.key, silenceAllowed());
  std::vector<Candidate> candidates = candidatesOf(meeting);
  return joinStar(candidates, card, meeting.key, silenceAllowed(), describe(meeting, candidates));
}

/// Rank 0 says in a file where it listens; the others look into it until they have found it.
static Star meetByFile(const std::string &path, ProcessCard &card, JobKey &key) {
  if (card.rank > 0) {
    auto look = [&path](ProcessCard &mine, JobKey &itsKey) {
      std::optional<Notice> notice = readNotice(path);
      mine.job = notice ? notice->job : 0;
      itsKey = notice ? notice->key() : JobKey();
      return notice ? notice->candidates() : std::vector<Candidate>();
    };
    return joinStar(look, card, key, silenceAllowed(),
                    "what \"" + path + "\" (PSRT_MEETING_FILE) says");
  }
  Socket listener = listenAt(0, /*local=*/false);
  if (!listener)
    PSRT_FAIL(Failed, "cannot listen for the other ranks: %s", std::strerror(errno));
  Notice notice = makeNotice(listener);
  card.job = notice.job;
  key = notice.key();
  PostedNotice posted(path, notice);
  return gatherStar(listener, card, key, silenceAllowed());
}

void ProcessJob::joinTcp(const ProcessPlace &place) {
  Rendezvous meeting = findRendezvous(place);
  card = makeCard(int(place.rank), int(place.size), meeting.job);
  card.command = command;
  Socket listener = listenAt(0, meeting.local);
  if (!listener)
    PSRT_FAIL(Failed, "cannot listen for the other ranks: %s", std::strerror(errno));
  card.port = portOf(listener);
  Star star = meeting.file.empty() ? meetAtPorts(meeting, card)
                                   : meetByFile(meeting.file, card, meeting.key);
  std::vector<MeshPeer> peers;
  for (const ProcessCard &other : star.cards)
    peers.push_back({{star.addressOf(other.rank), other.port}, other.nonce});
  startWatch(std::move(star));
  transports = makeTcpTransports(*watch, std::move(listener), std::move(peers), meeting.key, card,
                                 dedicated);
  openRanks();
}

void ProcessJob::openRanks() {
  std::vector<int> others;
  for (int rank = 0; rank < card.size; ++rank)
    if (rank != card.rank)
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
  if (!exchange.lanes.empty())
    transport.run(exchange, "collecting texts");
}

std::vector<std::string> ProcessJob::collect(const std::string &text) {
  uint64_t size = text.size();
  std::vector<uint64_t> sizes(card.size);
  std::vector<Span> spans;
  for (uint64_t &one : sizes)
    spans.push_back({reinterpret_cast<char *>(&one), sizeof(one)});
  sendToFirst(*ranks, card.rank, {reinterpret_cast<char *>(&size), sizeof(size)}, spans);
  std::vector<std::string> texts(card.size, "");
  for (int rank = 0; rank < card.size; ++rank) {
    texts[rank].resize(sizes[rank]);
    spans[rank] = {texts[rank].data(), sizes[rank]};
  }
  texts[0] = text;
  sendToFirst(*ranks, card.rank, {const_cast<char *>(text.data()), size}, spans);
  return card.rank == 0 ? texts : std::vector<std::string>();
}

void ProcessJob::meet() { meetAll(*ranks, card.rank, card.size); }

std::unique_ptr<Communication> ProcessJob::makeCommunication(const Mesh &mesh,
                                                             const std::vector<Queue> &queues) {
  QueueChannels opened;
  for (const Queue &queue : queues) {
    int channel = channels++;
    if (transports->hasThreads() && !queue.peers.empty())
      opened[queue.name] = transports->open(channel, queue.peers);
  }
  return makeProcessCommunication(mesh, *ranks, std::move(opened), *watch, comm.c_str());
}

void ProcessJob::leave() {
  meet();
  watch->leave();
  if (mpi)
    mpi->check(mpi->get().finish(), "finishing");
}

bool ProcessJob::fail(const Status &status) {
  Verdict verdict = watch->report({card.rank, status.code, status.message, true});
  // A lost rank is worth a line of each; what is wrong with the data is said once.
  return status.code == StatusCode::Failed || verdict.rank == card.rank;
}

} // namespace psrt
