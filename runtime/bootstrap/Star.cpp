// The handshake between rank 0 and the others.
#include "runtime/bootstrap/Star.h"
#include "runtime/bootstrap/Processes.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace psrt {
namespace {

constexpr uint64_t magic = 0x31747261'74737370; // "psstart1"

/// What a newcomer sends, and the answer.
struct Hello {
  uint64_t magic;
  ProcessCard card;
};
struct Answer {
  uint64_t magic, job;
};

/// Identifies the running system: containers of one host may share its name, or not.
uint64_t hostNumber() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return hashText(boot + "|" + name);
}

/// A connection that has not said yet who it is: it may be anybody's.
struct Newcomer {
  Socket socket;
  Hello hello;
  size_t received = 0;
  Deadline until;
};

class Hub {
public:
  Hub(const Socket &listener, const ProcessCard &card) : listener(listener) {
    star.sockets.resize(card.size);
    star.cards.resize(card.size);
    star.cards[0] = card;
    std::strcpy(star.cards[0].address, "127.0.0.1");
    star.hub = "127.0.0.1";
    missing = card.size - 1;
  }

  Star run(double seconds) {
    Deadline deadline = secondsFromNow(seconds);
    while (missing > 0) {
      if (std::chrono::steady_clock::now() >= deadline)
        failMissing(seconds);
      awaitSomething();
      while (Socket socket = acceptFrom(listener))
        newcomers.push_back({std::move(socket), {}, 0, secondsFromNow(5)});
      for (Newcomer &newcomer : newcomers)
        serve(newcomer);
      newcomers.erase(std::remove_if(newcomers.begin(), newcomers.end(),
                                     [](const Newcomer &n) { return !n.socket; }),
                      newcomers.end());
    }
    for (size_t rank = 1; rank < star.sockets.size(); ++rank)
      if (!sendAll(star.sockets[rank], star.cards.data(), star.cards.size() * sizeof(ProcessCard),
                   secondsFromNow(seconds)))
        PSRT_FAIL(Failed, "rank %zu went away while the processes met", rank);
    return std::move(star);
  }

private:
  void awaitSomething() {
    std::vector<pollfd> entries{{listener.get(), POLLIN, 0}};
    for (const Newcomer &newcomer : newcomers)
      entries.push_back({newcomer.socket.get(), POLLIN, 0});
    poll(entries.data(), entries.size(), 200);
  }

  /// Reads what is there of a hello; an answer of another job tells a process to look further.
  void serve(Newcomer &newcomer) {
    char *to = reinterpret_cast<char *>(&newcomer.hello) + newcomer.received;
    ssize_t n = recv(newcomer.socket.get(), to, sizeof(Hello) - newcomer.received, MSG_DONTWAIT);
    if (n > 0)
      newcomer.received += n;
    bool waits = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (newcomer.received < sizeof(Hello)) {
      if ((n <= 0 && !waits) || std::chrono::steady_clock::now() > newcomer.until)
        newcomer.socket.close();
      return;
    }
    admit(newcomer);
  }

  void admit(Newcomer &newcomer) {
    const ProcessCard &mine = star.cards[0], &card = newcomer.hello.card;
    bool ours = newcomer.hello.magic == magic && card.job == mine.job && card.size == mine.size &&
                card.rank > 0 && card.rank < mine.size && !star.sockets[card.rank];
    Answer answer{magic, ours ? mine.job : ~mine.job};
    if (!sendAll(newcomer.socket, &answer, sizeof(answer), secondsFromNow(1)) || !ours)
      return newcomer.socket.close();
    ProcessCard &entry = star.cards[card.rank] = card;
    std::string address = peerAddress(newcomer.socket);
    std::snprintf(entry.address, sizeof(entry.address), "%s", address.c_str());
    star.sockets[card.rank] = std::move(newcomer.socket);
    --missing;
  }

  [[noreturn]] void failMissing(double seconds) const {
    std::string names;
    int listed = 0;
    for (size_t rank = 1; rank < star.sockets.size() && listed < 8; ++rank)
      if (!star.sockets[rank])
        names += format("%s%zu", listed++ ? ", " : "", rank);
    PSRT_FAIL(Failed,
              "%d of %zu processes have not come to rank 0 within %g s (PSRT_TIMEOUT): rank%s %s%s",
              missing, star.sockets.size(), seconds, missing > 1 ? "s" : "", names.c_str(),
              missing > listed ? ", ..." : "");
  }

  const Socket &listener;
  Star star;
  int missing;
  std::vector<Newcomer> newcomers;
};

/// Whether the other end is rank 0 of this job.
bool greet(const Socket &socket, const ProcessCard &card) {
  Hello hello{magic, card};
  Answer answer{};
  return sendAll(socket, &hello, sizeof(hello), secondsFromNow(1)) &&
         receiveAll(socket, &answer, sizeof(answer), secondsFromNow(2)) && answer.magic == magic &&
         answer.job == card.job;
}

} // namespace

ProcessCard makeCard(int rank, int size, uint64_t job) {
  ProcessCard card;
  card.rank = rank;
  card.size = size;
  card.job = job;
  card.host = hostNumber();
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    card.coreCount = std::max(1, CPU_COUNT(&set));
  else
    card.coreCount = std::max(1u, std::thread::hardware_concurrency());
  card.cores = hashText(std::string(reinterpret_cast<const char *>(&set), sizeof(set)));
  return card;
}

std::string Star::addressOf(int rank) const {
  // What rank 0 reaches over loopback stands on its host, which the others know by another name.
  std::string address = cards[rank].address;
  return isLoopback(address) ? hub : address;
}

Star gatherStar(const Socket &listener, const ProcessCard &card, double seconds) {
  return Hub(listener, card).run(seconds);
}

/// The star of what `card` can reach rank 0 at; none where it is not there, errno may say why.
static std::optional<Star> tryToJoin(const Candidate &candidate, const ProcessCard &card,
                                     Deadline deadline, const std::string &where) {
  Socket socket =
      connectTo(candidate.address, candidate.port, std::min(deadline, secondsFromNow(2)));
  if (!socket)
    return std::nullopt;
  errno = 0;
  if (!greet(socket, card))
    return std::nullopt;
  Star star;
  star.hub = candidate.address;
  star.cards.resize(card.size);
  if (!receiveAll(socket, star.cards.data(), star.cards.size() * sizeof(ProcessCard), deadline))
    PSRT_FAIL(Failed, "rank 0 went away while the processes met (%s)", where.c_str());
  star.sockets.push_back(std::move(socket));
  return star;
}

Star joinStar(const Search &search, ProcessCard &card, double seconds, const std::string &where) {
  Deadline deadline = secondsFromNow(seconds);
  auto isOver = [&] { return std::chrono::steady_clock::now() >= deadline; };
  int lastError = 0;
  while (!isOver()) {
    for (const Candidate &candidate : search(card)) {
      if (isOver())
        break;
      errno = 0;
      if (std::optional<Star> star = tryToJoin(candidate, card, deadline, where))
        return std::move(*star);
      lastError = errno ? errno : lastError;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  PSRT_FAIL(Failed, "rank 0 of this job was not found within %g s (PSRT_TIMEOUT) at %s%s%s",
            seconds, where.c_str(), lastError ? ": " : "",
            lastError ? std::strerror(lastError) : "");
}

Star joinStar(const std::vector<Candidate> &candidates, const ProcessCard &card, double seconds,
              const std::string &where) {
  ProcessCard mine = card;
  return joinStar([&](ProcessCard &) { return candidates; }, mine, seconds, where);
}

} // namespace psrt
