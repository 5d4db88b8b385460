// The handshake between rank 0 and the others.
#include "runtime/bootstrap/Star.h"
#include "runtime/bootstrap/Acceptor.h"
#include "runtime/bootstrap/Processes.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sched.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace psrt {
namespace {

/// The reply of a process to rank 0's challenge.
struct Hello {
  ProcessCard card;
  Nonce nonce; ///< what rank 0 signs
  Digest proof;

  Digest sign(const JobKey &key, const Nonce &challenge) const {
    return psrt::sign(key, "hello", {bytesOf(challenge), bytesOf(nonce), bytesOf(card)});
  }
};

/// Before each message of rank 0, which is a text or the cards.
struct Header {
  enum Kind : uint32_t {
    Welcome,    ///< no message; the cards or a failure follow when all have come
    OtherFlags, ///< no message; Welcome follows if no rank with rank 0's own flags comes
    OtherJob,   ///< no message
    WrongKey,   ///< no message; the sender claims to be of this job, and did not prove it
    Refused,    ///< why
    Failed,     ///< why the processes did not meet
    AllArrived  ///< the cards
  };
  uint32_t kind, bytes;
  Digest proof;

  Digest sign(const JobKey &key, const Nonce &nonce, std::string_view message) const {
    return psrt::sign(key, "rank 0", {bytesOf(nonce), bytesOf(kind), message});
  }
};

constexpr size_t kMostText = 1024;
/// How long a process of other flags is left aside when it is the only one of its rank.
constexpr double kAsideSeconds = 2;

bool sendMessage(const Socket &socket, const JobKey &key, const Nonce &nonce, Header::Kind kind,
                 std::string_view message, Deadline deadline) {
  Header header{kind, uint32_t(message.size()), {}};
  header.proof = header.sign(key, nonce, message);
  return sendAll(socket, &header, sizeof(header), deadline) &&
         sendAll(socket, message.data(), message.size(), deadline);
}

/// Identifies the running system: containers of one host may share its name, or not.
uint64_t hostNumber() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return hashText(boot + "|" + name);
}

/// Whether the other end of a connection that says nothing has closed it.
bool isGone(const Socket &socket) {
  char byte;
  ssize_t n = recv(socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

class Hub {
  struct Member {
    Socket socket;
    ProcessCard card;
    Nonce nonce;
  };

public:
  Hub(const Socket &listener, const ProcessCard &card, const JobKey &key)
      : listener(listener), key(key), acceptor(sizeof(Hello), /*greets=*/true) {
    star.sockets.resize(card.size);
    star.cards.resize(card.size);
    nonces.resize(card.size);
    aside.resize(card.size);
    wasAside.resize(card.size);
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
      for (Arrival &arrival : acceptor.wait(listener, 200))
        admit(arrival);
      if (isCompleteWithAside())
        for (int rank = 1; rank < int(aside.size()); ++rank)
          if (!star.sockets[rank])
            welcome(rank, std::move(aside[rank]));
    }
    std::string_view cards(reinterpret_cast<const char *>(star.cards.data()),
                           star.cards.size() * sizeof(ProcessCard));
    for (size_t rank = 1; rank < star.sockets.size(); ++rank)
      if (!sendMessage(star.sockets[rank], key, nonces[rank], Header::AllArrived, cards,
                       secondsFromNow(seconds)))
        PSRT_FAIL(Failed, "rank %zu went away while the processes met", rank);
    return std::move(star);
  }

private:
  void admit(Arrival &arrival) {
    Hello hello;
    std::memcpy(&hello, arrival.message.data(), sizeof(hello));
    const ProcessCard &card = hello.card;
    std::string address = peerAddress(arrival.socket), text;
    Header::Kind kind = judge(hello, arrival.challenge, address, text);
    if (kind == Header::Welcome)
      return welcome(card.rank, {std::move(arrival.socket), card, hello.nonce});
    bool sent = sendMessage(arrival.socket, key, hello.nonce, kind, text, secondsFromNow(0.2));
    if (!sent || kind != Header::OtherFlags || star.sockets[card.rank] || isThere(card.rank))
      return;
    // Once for each rank: those that try again and again, out of step, do not prolong it for ever.
    if (!wasAside[card.rank])
      asideUntil = secondsFromNow(kAsideSeconds);
    wasAside[card.rank] = true;
    aside[card.rank] = {std::move(arrival.socket), card, hello.nonce};
  }

  void welcome(int rank, Member member) {
    if (!sendMessage(member.socket, key, member.nonce, Header::Welcome, "", secondsFromNow(0.2)))
      return;
    missing -= !star.sockets[rank];
    // A process of this host may have come to any of its addresses, which others need not reach.
    std::string address = isOwnHost(member.socket) ? "127.0.0.1" : peerAddress(member.socket);
    std::snprintf(member.card.address, sizeof(member.card.address), "%s", address.c_str());
    star.cards[rank] = member.card;
    nonces[rank] = member.nonce;
    star.sockets[rank] = std::move(member.socket);
  }

  bool isThere(int rank) const { return aside[rank].socket && !isGone(aside[rank].socket); }

  /// Whether those who were left aside are the missing ones. Another job's processes, which came to
  /// the wrong rank 0, are not: this job's own ones come within the time.
  bool isCompleteWithAside() const {
    if (missing == 0 || std::chrono::steady_clock::now() < asideUntil)
      return false;
    for (int rank = 1; rank < int(aside.size()); ++rank)
      if (!star.sockets[rank] && !isThere(rank))
        return false;
    return true;
  }

  /// Decides what to answer to `hello`, and sets `why` for a refusal. Processes of other jobs look
  /// for their own rank 0 at the same ports: they are told to look further, without a warning.
  Header::Kind judge(const Hello &hello, const Nonce &challenge, const std::string &address,
                     std::string &why) {
    const ProcessCard &mine = star.cards[0], &card = hello.card;
    if (card.job != mine.job)
      return Header::OtherJob;
    if (!isEqual(hello.proof, hello.sign(key, challenge))) {
      intruder = address;
      warnRefused(format("a process at %s claims to be rank %d and does not know this job's secret "
                         "(PSRT_JOB_SECRET); it was refused",
                         address.c_str(), card.rank));
      return Header::WrongKey;
    }
    if (card.size != mine.size || card.rank <= 0 || card.rank >= mine.size) {
      why =
          format("it is rank %d of %d, and the job has %d ranks", card.rank, card.size, mine.size);
    } else if (card.command != mine.command) {
      other = address;
      return Header::OtherFlags;
    } else if (star.sockets[card.rank] && !isGone(star.sockets[card.rank])) {
      why = format("two processes claim rank %d: the second, from %s, was refused; the first came "
                   "from %s",
                   card.rank, address.c_str(), star.cards[card.rank].address);
      warnRefused(why);
    }
    return why.empty() ? Header::Welcome : Header::Refused;
  }

  /// Fails, and tells the ranks that have come why the job does not start.
  [[noreturn]] void failMissing(double seconds) const {
    std::string names;
    int listed = 0;
    for (size_t rank = 1; rank < star.sockets.size() && listed < 8; ++rank)
      if (!star.sockets[rank])
        names += format("%s%zu", listed++ ? ", " : "", rank);
    std::string text = format(
        "%d of %zu processes have not come to rank 0 within %g s (PSRT_TIMEOUT): rank%s %s%s",
        missing, star.sockets.size(), seconds, missing > 1 ? "s" : "", names.c_str(),
        missing > listed ? ", ..." : "");
    if (!intruder.empty())
      text += "; a process at " + intruder +
              " does not know the job's secret: give all the same PSRT_JOB_SECRET";
    if (!other.empty())
      text += "; a process at " + other + " has other flags, or another program: another job?";
    for (size_t rank = 1; rank < star.sockets.size(); ++rank)
      if (star.sockets[rank])
        sendMessage(star.sockets[rank], key, nonces[rank], Header::Failed, text,
                    secondsFromNow(0.2));
    PSRT_FAIL(Failed, "%s", text.c_str());
  }

  const Socket &listener;
  const JobKey &key;
  Acceptor acceptor;
  Star star;
  std::vector<Nonce> nonces; ///< by rank, what to sign for it
  std::vector<Member> aside; ///< by rank, those with other flags
  std::vector<bool> wasAside;
  Deadline asideUntil;
  std::string intruder; ///< the address of the last one without the key
  std::string other;    ///< the address of the last one with other flags
  int missing;
};

/// The connection of a rank other than 0 to one address where rank 0 may listen.
class Spoke {
public:
  Spoke(Socket socket, const ProcessCard &card, const JobKey &key)
      : socket(std::move(socket)), card(card), key(key) {}

  /// Whether the other end is rank 0 of this job. `hint` is set to what may be wrong otherwise.
  bool greet(const std::string &address, std::string &hint) {
    Challenge challenge;
    if (!receiveAll(socket, &challenge, sizeof(challenge), secondsFromNow(2)) ||
        challenge.magic != Challenge::kMagic)
      return false;
    Hello hello{card, nonce, {}};
    hello.proof = hello.sign(key, challenge.nonce);
    Header::Kind kind;
    std::string text;
    if (!sendAll(socket, &hello, sizeof(hello), secondsFromNow(1)) ||
        !receive(kind, text, kMostText, secondsFromNow(2)))
      return false;
    if (isSigned && kind == Header::OtherFlags) {
      hint = format("the rank 0 at %s has other flags, or another program: it may be another job's",
                    address.c_str());
      if (!receive(kind, text, kMostText, secondsFromNow(2 * kAsideSeconds)))
        return false;
    }
    // A reply without the key is not signed: it may come from anyone.
    if (!isSigned && kind == Header::WrongKey)
      hint = format("a process at %s has this job's name and another secret (PSRT_JOB_SECRET)",
                    address.c_str());
    if (isSigned && kind == Header::Refused)
      PSRT_FAIL(Failed, "rank 0 at %s refused this process: %s", address.c_str(), text.c_str());
    return isSigned && kind == Header::Welcome;
  }

  std::vector<ProcessCard> receiveCards(Deadline deadline, const std::string &where) {
    Header::Kind kind;
    std::string message;
    size_t bytes = card.size * sizeof(ProcessCard);
    if (!receive(kind, message, std::max(bytes, kMostText), deadline) || !isSigned)
      PSRT_FAIL(Failed, "rank 0 went away while the processes met (%s)", where.c_str());
    if (kind == Header::Failed)
      PSRT_FAIL(Failed, "%s", message.c_str());
    std::vector<ProcessCard> cards(card.size);
    if (kind != Header::AllArrived || message.size() != bytes)
      PSRT_FAIL(Failed, "rank 0 sent something else than the job's processes (%s)", where.c_str());
    std::memcpy(cards.data(), message.data(), bytes);
    if (std::string bad = findBadCard(cards, card); !bad.empty())
      PSRT_FAIL(Failed, "rank 0 sent %s (%s)", bad.c_str(), where.c_str());
    return cards;
  }

  Socket socket;

private:
  bool receive(Header::Kind &kind, std::string &message, size_t most, Deadline deadline) {
    Header header;
    if (!receiveAll(socket, &header, sizeof(header), deadline) || header.bytes > most)
      return false;
    message.resize(header.bytes);
    if (!receiveAll(socket, message.data(), message.size(), deadline))
      return false;
    kind = Header::Kind(header.kind);
    isSigned = isEqual(header.proof, header.sign(key, nonce, message));
    return true;
  }

  const ProcessCard &card;
  const JobKey &key;
  const Nonce nonce = drawNonce();
  bool isSigned = false; ///< whether the last message proved that its sender knows the key
};

} // namespace

ProcessCard makeCard(int rank, int size, uint64_t job) {
  ProcessCard card;
  card.rank = rank;
  card.size = size;
  card.job = job;
  card.host = hostNumber();
  card.nonce = drawNonce();
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    card.coreCount = std::max(1, CPU_COUNT(&set));
  else
    card.coreCount = std::max(1u, std::thread::hardware_concurrency());
  card.cores = hashText(std::string(reinterpret_cast<const char *>(&set), sizeof(set)));
  return card;
}

static bool isAddress(const char *text) {
  in6_addr room;
  return inet_pton(AF_INET, text, &room) == 1 || inet_pton(AF_INET6, text, &room) == 1;
}

std::string findBadCard(const std::vector<ProcessCard> &cards, const ProcessCard &mine) {
  for (int rank = 0; rank < int(cards.size()); ++rank) {
    const ProcessCard &card = cards[rank];
    if (card.rank != rank || card.size != mine.size || card.job != mine.job)
      return format("a card of rank %d of %d where that of rank %d of %d belongs", card.rank,
                    card.size, rank, mine.size);
    if (!std::memchr(card.address, 0, sizeof(card.address)) || !isAddress(card.address))
      return format("a card of rank %d whose address is none", rank);
    if ((card.port == 0) != (mine.port == 0))
      return format("a card of rank %d whose port is %d", rank, int(card.port));
  }
  return "";
}

std::string Star::addressOf(int rank) const {
  // What rank 0 reaches over loopback stands on its host, which the others know by another name.
  std::string address = cards[rank].address;
  return isLoopback(address) ? hub : address;
}

Star gatherStar(const Socket &listener, const ProcessCard &card, const JobKey &key,
                double seconds) {
  return Hub(listener, card, key).run(seconds);
}

/// The star of one who has found rank 0; none where the end that answered is somebody else: `hint`
/// may say who.
static std::optional<Star> tryToJoin(Connector::Answer answer, const ProcessCard &card,
                                     const JobKey &key, double seconds, const std::string &where,
                                     std::string &hint) {
  const Candidate &candidate = answer.candidate;
  Spoke spoke(std::move(answer.socket), card, key);
  std::string address = candidate.address + " port " + std::to_string(candidate.port);
  if (!spoke.greet(address, hint))
    return std::nullopt;
  Star star;
  star.hub = candidate.address;
  // Rank 0 has begun to wait for the others, and says so when they do not come.
  star.cards = spoke.receiveCards(secondsFromNow(seconds + 2), where);
  star.sockets.push_back(std::move(spoke.socket));
  return star;
}

Star joinStar(const Search &search, ProcessCard &card, JobKey &key, double seconds,
              const std::string &where) {
  Deadline deadline = secondsFromNow(seconds);
  auto isOver = [&] { return std::chrono::steady_clock::now() >= deadline; };
  std::string hint;
  Connector connector(sizeof(Challenge));
  while (!isOver()) {
    connector.start(search(card, key));
    Deadline again = secondsFromNow(0.05);
    while (std::optional<Connector::Answer> answer = connector.next(again))
      if (std::optional<Star> star = tryToJoin(std::move(*answer), card, key, seconds, where, hint))
        return std::move(*star);
  }
  if (hint.empty())
    hint = connector.describeErrors();
  PSRT_FAIL(Failed, "rank 0 of this job was not found within %g s (PSRT_TIMEOUT) at %s%s%s",
            seconds, where.c_str(), hint.empty() ? "" : ": ", hint.c_str());
}

Star joinStar(const std::vector<Candidate> &candidates, const ProcessCard &card, const JobKey &key,
              double seconds, const std::string &where) {
  ProcessCard mine = card;
  JobKey known = key;
  return joinStar([&](ProcessCard &, JobKey &) { return candidates; }, mine, known, seconds, where);
}

} // namespace psrt
