// Implements the handshake between rank 0 and the other ranks.
#include "runtime/bootstrap/Rendezvous.h"
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
  ProcessInfo info;
  Nonce nonce; ///< nonce that rank 0 must sign
  Digest proof;

  Digest sign(const JobKey &key, const Nonce &challenge) const {
    return psrt::sign(key, "hello", {bytesOf(challenge), bytesOf(nonce), bytesOf(info)});
  }
};

/// Precedes each message of rank 0.
struct Header {
  enum Kind : uint32_t {
    Welcome,    ///< no text; AllArrived follows, or Failed if a rank does not arrive in time
    OtherFlags, ///< no text; Welcome follows if no process with rank 0's flags takes this rank
    OtherJob,   ///< no text
    WrongKey,   ///< no text; the process did not prove that it knows the key of this job
    Refused,    ///< text: the reason
    Failed,     ///< text: why the rendezvous failed
    AllArrived  ///< the infos of all processes
  };
  uint32_t kind, bytes;
  Digest proof;

  Digest sign(const JobKey &key, const Nonce &nonce, std::string_view message) const {
    return psrt::sign(key, "rank 0", {bytesOf(nonce), bytesOf(kind), message});
  }
};

constexpr size_t kMaxText = 1024;
/// Time for which rank 0 waits for processes with the same flags as its own. Then rank 0 also
/// admits processes with other flags, if they complete the job.
constexpr double kAsideSeconds = 2;

bool sendMessage(const Socket &socket, const JobKey &key, const Nonce &nonce, Header::Kind kind,
                 std::string_view message, Deadline deadline) {
  Header header{kind, uint32_t(message.size()), {}};
  header.proof = header.sign(key, nonce, message);
  return sendAll(socket, &header, sizeof(header), deadline) &&
         sendAll(socket, message.data(), message.size(), deadline);
}

/// Returns a hash of the boot id and the host name. Containers on one host may have different host
/// names.
uint64_t hostNumber() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return hashText(boot + "|" + name);
}

/// Returns whether the other end has closed the connection.
bool isGone(const Socket &socket) {
  char byte;
  ssize_t n = recv(socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/// Rank 0's side of the rendezvous.
class Server {
  struct Member {
    Socket socket;
    ProcessInfo info;
    Nonce nonce;
  };

public:
  Server(const Socket &listener, const ProcessInfo &info, const JobKey &key)
      : listener(listener), key(key), acceptor(sizeof(Hello), /*greets=*/true) {
    rendezvous.sockets.resize(info.size);
    rendezvous.infos.resize(info.size);
    nonces.resize(info.size);
    aside.resize(info.size);
    wasAside.resize(info.size);
    rendezvous.infos[0] = info;
    std::strcpy(rendezvous.infos[0].address, "127.0.0.1");
    rendezvous.rank0Address = "127.0.0.1";
    missing = info.size - 1;
  }

  Rendezvous run(double seconds) {
    Deadline deadline = secondsFromNow(seconds);
    while (missing > 0) {
      if (std::chrono::steady_clock::now() >= deadline)
        failMissing(seconds);
      for (Arrival &arrival : acceptor.wait(listener, 200))
        admit(arrival);
      if (isCompleteWithAside())
        for (int rank = 1; rank < int(aside.size()); ++rank)
          if (!rendezvous.sockets[rank])
            welcome(rank, std::move(aside[rank]));
    }
    std::string_view infos(reinterpret_cast<const char *>(rendezvous.infos.data()),
                           rendezvous.infos.size() * sizeof(ProcessInfo));
    for (size_t rank = 1; rank < rendezvous.sockets.size(); ++rank)
      if (!sendMessage(rendezvous.sockets[rank], key, nonces[rank], Header::AllArrived, infos,
                       secondsFromNow(seconds)))
        PSRT_FAIL(Failed, "rank %zu disconnected during the rendezvous", rank);
    return std::move(rendezvous);
  }

private:
  /// Accepts a new process (Welcome), sets it aside (OtherFlags), or refuses it.
  void admit(Arrival &arrival) {
    Hello hello;
    std::memcpy(&hello, arrival.message.data(), sizeof(hello));
    const ProcessInfo &info = hello.info;
    std::string address = peerAddress(arrival.socket), text;
    Header::Kind kind = chooseReply(hello, arrival.challenge, address, text);
    if (kind == Header::Welcome)
      return welcome(info.rank, {std::move(arrival.socket), info, hello.nonce});
    bool sent = sendMessage(arrival.socket, key, hello.nonce, kind, text, secondsFromNow(0.2));
    if (!sent || kind != Header::OtherFlags || rendezvous.sockets[info.rank] ||
        isConnectedAside(info.rank))
      return;
    // Only the first attempt of a rank extends the wait, so that repeated attempts cannot extend it
    // forever.
    if (!wasAside[info.rank])
      asideUntil = secondsFromNow(kAsideSeconds);
    wasAside[info.rank] = true;
    aside[info.rank] = {std::move(arrival.socket), info, hello.nonce};
  }

  /// Adds a process to the rendezvous as `rank`.
  void welcome(int rank, Member member) {
    if (!sendMessage(member.socket, key, member.nonce, Header::Welcome, "", secondsFromNow(0.2)))
      return;
    missing -= !rendezvous.sockets[rank];
    // The address by which a process of this host has connected may be unreachable from other
    // hosts. Therefore record loopback, which addressOf replaces.
    std::string address = isOwnHost(member.socket) ? "127.0.0.1" : peerAddress(member.socket);
    std::snprintf(member.info.address, sizeof(member.info.address), "%s", address.c_str());
    rendezvous.infos[rank] = member.info;
    nonces[rank] = member.nonce;
    rendezvous.sockets[rank] = std::move(member.socket);
  }

  bool isConnectedAside(int rank) const {
    return aside[rank].socket && !isGone(aside[rank].socket);
  }

  /// Returns whether every missing rank has a process that was set aside and is still connected.
  /// The wait until `asideUntil` lets processes of this job arrive first, so that processes of
  /// another job are not admitted instead.
  bool isCompleteWithAside() const {
    if (missing == 0 || std::chrono::steady_clock::now() < asideUntil)
      return false;
    for (int rank = 1; rank < int(aside.size()); ++rank)
      if (!rendezvous.sockets[rank] && !isConnectedAside(rank))
        return false;
    return true;
  }

  /// Returns the reply to `hello`, and sets `why` for Refused. A process of another job that
  /// searches the same ports gets OtherJob, without a warning.
  Header::Kind chooseReply(const Hello &hello, const Nonce &challenge, const std::string &address,
                           std::string &why) {
    const ProcessInfo &mine = rendezvous.infos[0], &info = hello.info;
    if (info.job != mine.job)
      return Header::OtherJob;
    if (!isEqual(hello.proof, hello.sign(key, challenge))) {
      withoutKey = address;
      warnRefused(format("a process at %s claims to be rank %d but does not know this job's secret "
                         "(PSRT_JOB_SECRET); it was refused",
                         address.c_str(), info.rank));
      return Header::WrongKey;
    }
    if (info.size != mine.size || info.rank <= 0 || info.rank >= mine.size) {
      why =
          format("the process is rank %d of %d, but the job has %d ranks; start all processes with "
                 "the same number of ranks",
                 info.rank, info.size, mine.size);
    } else if (info.command != mine.command) {
      withOtherFlags = address;
      return Header::OtherFlags;
    } else if (rendezvous.sockets[info.rank] && !isGone(rendezvous.sockets[info.rank])) {
      why = format("two processes claim rank %d: the second, from %s, was refused; the first came "
                   "from %s",
                   info.rank, address.c_str(), rendezvous.infos[info.rank].address);
      warnRefused(why);
    }
    return why.empty() ? Header::Welcome : Header::Refused;
  }

  /// Sends the reason to the ranks that have arrived, and fails.
  [[noreturn]] void failMissing(double seconds) const {
    std::string names;
    int listed = 0;
    for (size_t rank = 1; rank < rendezvous.sockets.size() && listed < 8; ++rank)
      if (!rendezvous.sockets[rank])
        names += format("%s%zu", listed++ ? ", " : "", rank);
    std::string text = format(
        "%d of %zu processes did not connect to rank 0 within %g s (PSRT_TIMEOUT): rank%s %s%s",
        missing, rendezvous.sockets.size(), seconds, missing > 1 ? "s" : "", names.c_str(),
        missing > listed ? ", ..." : "");
    if (!withoutKey.empty())
      text += "; a process at " + withoutKey +
              " does not know the job's secret; give all processes the same PSRT_JOB_SECRET";
    if (!withOtherFlags.empty())
      text += "; a process at " + withOtherFlags +
              " has other flags or another program and may belong to another job";
    for (size_t rank = 1; rank < rendezvous.sockets.size(); ++rank)
      if (rendezvous.sockets[rank])
        sendMessage(rendezvous.sockets[rank], key, nonces[rank], Header::Failed, text,
                    secondsFromNow(0.2));
    PSRT_FAIL(Failed, "%s", text.c_str());
  }

  const Socket &listener;
  const JobKey &key;
  Acceptor acceptor;
  Rendezvous rendezvous;
  std::vector<Nonce> nonces; ///< by rank: nonce that rank 0 signs in messages to this rank
  std::vector<Member> aside; ///< processes with other flags, by rank
  std::vector<bool> wasAside;
  Deadline asideUntil;
  std::string withoutKey;     ///< address of the last process without the key
  std::string withOtherFlags; ///< address of the last process with other flags
  int missing;
};

/// The connection of a rank other than 0 to one address where rank 0 may listen.
class Client {
public:
  Client(Socket socket, const ProcessInfo &info, const JobKey &key)
      : socket(std::move(socket)), info(info), key(key) {}

  /// Performs the handshake. Returns whether the other end is rank 0 of this job. If not, may set
  /// `hint` to the likely cause.
  bool greet(const std::string &address, std::string &hint) {
    Challenge challenge;
    if (!receiveAll(socket, &challenge, sizeof(challenge), secondsFromNow(2)) ||
        challenge.magic != Challenge::kMagic)
      return false;
    Hello hello{info, nonce, {}};
    hello.proof = hello.sign(key, challenge.nonce);
    Header::Kind kind;
    std::string text;
    if (!sendAll(socket, &hello, sizeof(hello), secondsFromNow(1)) ||
        !receive(kind, text, kMaxText, secondsFromNow(2)))
      return false;
    if (isSigned && kind == Header::OtherFlags) {
      hint = format("rank 0 at %s has other flags or another program and may belong to another job",
                    address.c_str());
      if (!receive(kind, text, kMaxText, secondsFromNow(2 * kAsideSeconds)))
        return false;
    }
    // An unsigned reply may come from anyone, so it only gives a hint.
    if (!isSigned && kind == Header::WrongKey)
      hint = format("a process at %s has this job's name but another secret (PSRT_JOB_SECRET)",
                    address.c_str());
    if (isSigned && kind == Header::Refused)
      PSRT_FAIL(Failed, "rank 0 at %s refused this process: %s", address.c_str(), text.c_str());
    return isSigned && kind == Header::Welcome;
  }

  /// Receives the infos of all processes from rank 0. Error messages contain `where`.
  std::vector<ProcessInfo> receiveInfos(Deadline deadline, const std::string &where) {
    Header::Kind kind;
    std::string message;
    size_t bytes = info.size * sizeof(ProcessInfo);
    if (!receive(kind, message, std::max(bytes, kMaxText), deadline) || !isSigned)
      PSRT_FAIL(Failed, "rank 0 disconnected during the rendezvous (%s)", where.c_str());
    if (kind == Header::Failed)
      PSRT_FAIL(Failed, "%s", message.c_str());
    std::vector<ProcessInfo> infos(info.size);
    if (kind != Header::AllArrived || message.size() != bytes)
      PSRT_FAIL(Failed, "rank 0 did not send the list of processes (%s)", where.c_str());
    std::memcpy(infos.data(), message.data(), bytes);
    if (std::string bad = findBadProcessInfo(infos, info); !bad.empty())
      PSRT_FAIL(Failed, "rank 0 sent %s (%s); run the same program on all ranks", bad.c_str(),
                where.c_str());
    return infos;
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

  const ProcessInfo &info;
  const JobKey &key;
  const Nonce nonce = drawNonce();
  bool isSigned = false; ///< whether the sender of the last message knows the key
};

} // namespace

ProcessInfo makeProcessInfo(int rank, int size, uint64_t job) {
  ProcessInfo info;
  info.rank = rank;
  info.size = size;
  info.job = job;
  info.host = hostNumber();
  info.nonce = drawNonce();
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    info.coreCount = std::max(1, CPU_COUNT(&set));
  else
    info.coreCount = std::max(1u, std::thread::hardware_concurrency());
  info.cores = hashText(std::string(reinterpret_cast<const char *>(&set), sizeof(set)));
  return info;
}

static bool isAddress(const char *text) {
  in6_addr parsed;
  return inet_pton(AF_INET, text, &parsed) == 1 || inet_pton(AF_INET6, text, &parsed) == 1;
}

std::string findBadProcessInfo(const std::vector<ProcessInfo> &infos, const ProcessInfo &mine) {
  for (int rank = 0; rank < int(infos.size()); ++rank) {
    const ProcessInfo &info = infos[rank];
    if (info.rank != rank || info.size != mine.size || info.job != mine.job)
      return format("an entry of rank %d of %d instead of rank %d of %d", info.rank, info.size,
                    rank, mine.size);
    if (!std::memchr(info.address, 0, sizeof(info.address)) || !isAddress(info.address))
      return format("an invalid address for rank %d", rank);
    if ((info.port == 0) != (mine.port == 0))
      return format("the invalid port %d for rank %d", int(info.port), rank);
  }
  return "";
}

std::string Rendezvous::addressOf(int rank) const {
  // A rank with a loopback address is on rank 0's host. This process reaches that host at
  // `rank0Address`.
  std::string address = infos[rank].address;
  return isLoopback(address) ? rank0Address : address;
}

Rendezvous hostRendezvous(const Socket &listener, const ProcessInfo &info, const JobKey &key,
                          double seconds) {
  return Server(listener, info, key).run(seconds);
}

/// Joins the rendezvous through one candidate. Returns nullopt if the other end is not rank 0 of
/// this job; `hint` may then name the cause.
static std::optional<Rendezvous> tryToJoin(Connector::Answer answer, const ProcessInfo &info,
                                           const JobKey &key, double seconds,
                                           const std::string &where, std::string &hint) {
  const Candidate &candidate = answer.candidate;
  Client client(std::move(answer.socket), info, key);
  std::string address = candidate.address + " port " + std::to_string(candidate.port);
  if (!client.greet(address, hint))
    return std::nullopt;
  Rendezvous rendezvous;
  rendezvous.rank0Address = candidate.address;
  // Waits 2 s longer than rank 0, so that rank 0's error, which names the missing ranks, arrives
  // first.
  rendezvous.infos = client.receiveInfos(secondsFromNow(seconds + 2), where);
  rendezvous.sockets.push_back(std::move(client.socket));
  return rendezvous;
}

Rendezvous joinRendezvous(const Search &search, ProcessInfo &info, JobKey &key, double seconds,
                          const std::string &where) {
  Deadline deadline = secondsFromNow(seconds);
  auto isOver = [&] { return std::chrono::steady_clock::now() >= deadline; };
  std::string hint;
  Connector connector(sizeof(Challenge));
  while (!isOver()) {
    connector.start(search(info, key));
    Deadline again = secondsFromNow(0.05);
    while (std::optional<Connector::Answer> answer = connector.next(again))
      if (std::optional<Rendezvous> rendezvous =
              tryToJoin(std::move(*answer), info, key, seconds, where, hint))
        return std::move(*rendezvous);
  }
  if (hint.empty())
    hint = connector.describeErrors();
  PSRT_FAIL(Failed, "rank 0 of this job was not found within %g s (PSRT_TIMEOUT) at %s%s%s",
            seconds, where.c_str(), hint.empty() ? "" : ": ", hint.c_str());
}

Rendezvous joinRendezvous(const std::vector<Candidate> &candidates, const ProcessInfo &info,
                          const JobKey &key, double seconds, const std::string &where) {
  ProcessInfo mine = info;
  JobKey known = key;
  return joinRendezvous([&](ProcessInfo &, JobKey &) { return candidates; }, mine, known, seconds,
                        where);
}

} // namespace psrt
