// Implements heartbeats, farewells and failure reports.
#include "runtime/comm/process/HeartbeatMonitor.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace psrt {
namespace {

using Clock = std::chrono::steady_clock;

enum Kind : uint32_t { Beat, Farewell, Judged };

/// Precedes the text of each message.
struct Header {
  uint32_t kind;
  int32_t rank;
  uint32_t code, reported;
  uint32_t bytes;
};

constexpr uint32_t maxText = 4096;
constexpr double beatSeconds = 0.5, graceSeconds = 2;

double secondsSince(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}

void openPipe(int (&ends)[2]) {
  if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0)
    PSRT_FAIL(Failed, "cannot create a pipe: %s", std::strerror(errno));
}

void notify(int (&ends)[2]) {
  char byte = 0;
  while (write(ends[1], &byte, 1) < 0 && errno == EINTR)
    ;
}

} // namespace

HeartbeatMonitor::HeartbeatMonitor(Rendezvous rendezvous, int rank, double silence)
    : rank(rank), silence(silence) {
  for (size_t i = 0; i < rendezvous.sockets.size(); ++i)
    if (rendezvous.sockets[i])
      links.push_back({std::move(rendezvous.sockets[i]), int(i), "", Clock::now(), false});
  openPipe(wake);
  openPipe(stop);
  thread = std::thread([this] { serve(); });
}

HeartbeatMonitor::~HeartbeatMonitor() {
  notify(stop);
  thread.join();
  for (int fd : {wake[0], wake[1], stop[0], stop[1]})
    close(fd);
}

//===--- the thread -------------------------------------------------------===//

void HeartbeatMonitor::serve() {
  Clock::time_point beaten = Clock::now(), looked = beaten;
  std::vector<pollfd> entries;
  while (true) {
    entries.assign(1, {stop[0], POLLIN, 0});
    for (const Link &link : links)
      entries.push_back({link.left ? -1 : link.socket.get(), POLLIN, 0});
    poll(entries.data(), entries.size(), int(std::min(beatSeconds, silence / 8) * 500));
    if (entries[0].revents)
      return;
    if (secondsSince(looked) >
        std::min(2.0, silence / 2)) // this process was suspended, so it could not read heartbeats
      for (Link &link : links)
        link.heard = Clock::now();
    looked = Clock::now();
    for (Link &link : links)
      if (!link.left)
        listen(link);
    look();
    if (secondsSince(beaten) >= std::min(beatSeconds, silence / 4)) {
      beat();
      beaten = Clock::now();
    }
  }
}

void HeartbeatMonitor::beat() {
  std::lock_guard<std::mutex> lock(mutex);
  for (Link &link : links)
    if (!link.left)
      send(link, Beat, {});
}

/// Reads the available bytes of a connection.
void HeartbeatMonitor::listen(Link &link) {
  char buffer[4096];
  while (true) {
    ssize_t n = recv(link.socket.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (n > 0) {
      link.heard = Clock::now();
      link.input.append(buffer, n);
      while (takeMessage(link))
        ;
      continue;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    if (!link.left) {
      link.left = true;
      judge({link.rank, StatusCode::Failed,
             "was lost: its process ended or its host is unreachable", false});
    }
    return;
  }
}

bool HeartbeatMonitor::takeMessage(Link &link) {
  Header header;
  if (link.left || link.input.size() < sizeof(header))
    return false;
  std::memcpy(&header, link.input.data(), sizeof(header));
  size_t bytes = sizeof(header) + std::min(header.bytes, maxText);
  if (link.input.size() < bytes)
    return false;
  if (header.kind == Farewell)
    link.left = true;
  if (header.kind == Judged)
    judge({header.rank, StatusCode(header.code), link.input.substr(sizeof(header), header.bytes),
           header.reported != 0});
  link.input.erase(0, bytes);
  return true;
}

/// Reports ranks without heartbeats. Calls the last-resort function if this process is still
/// running two seconds after a failure.
void HeartbeatMonitor::look() {
  for (Link &link : links)
    if (!link.left && secondsSince(link.heard) > silence)
      judge({link.rank, StatusCode::Failed,
             format("has not answered for %g s (PSRT_TIMEOUT): it hangs or its host is unreachable",
                    silence),
             false});
  std::function<void(const Status &)> function;
  Status status;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!jobFailure || leaving || !lastResort || secondsSince(judgedAt) < graceSeconds)
      return;
    function = lastResort;
    status = statusOf(*jobFailure, "a computation");
  }
  function(status);
}

/// Records the first failure; rank 0 sends it to all ranks.
void HeartbeatMonitor::judge(JobFailure found) {
  std::lock_guard<std::mutex> lock(mutex);
  if (jobFailure || leaving)
    return;
  jobFailure = std::move(found);
  judgedAt = Clock::now();
  if (rank == 0)
    for (Link &link : links)
      send(link, Judged, *jobFailure);
  judged = true;
  notify(wake);
  changed.notify_all();
}

/// Sends a message; the caller holds the mutex. If the connection accepts no more data, the message
/// is lost. Missing heartbeats then reveal the failure.
void HeartbeatMonitor::send(Link &link, uint32_t kind, const JobFailure &failure) {
  Header header{kind, failure.rank, uint32_t(failure.code), failure.reported,
                uint32_t(std::min<size_t>(failure.text.size(), maxText))};
  std::string message(reinterpret_cast<const char *>(&header), sizeof(header));
  message.append(failure.text, 0, header.bytes);
  sendAll(link.socket, message.data(), message.size(), secondsFromNow(kind == Beat ? 0 : 0.2));
}

//===--- the other threads ------------------------------------------------===//

std::optional<JobFailure> HeartbeatMonitor::getJobFailure() {
  std::lock_guard<std::mutex> lock(mutex);
  return jobFailure;
}

JobFailure HeartbeatMonitor::report(const JobFailure &found) {
  if (rank == 0)
    judge(found);
  std::unique_lock<std::mutex> lock(mutex);
  if (!jobFailure)
    for (Link &link : links)
      send(link, Judged, found);
  changed.wait_for(lock, std::chrono::duration<double>(graceSeconds),
                   [&] { return jobFailure.has_value(); });
  return jobFailure ? *jobFailure : found;
}

Status HeartbeatMonitor::statusOf(const JobFailure &found, const std::string &activity) const {
  Status status;
  status.code = found.code;
  status.rank = rank;
  status.message = format("rank %d %s%s; this rank was in %s", found.rank,
                          found.reported ? "failed: " : "", found.text.c_str(), activity.c_str());
  return status;
}

void HeartbeatMonitor::fail(const std::string &activity) {
  std::optional<JobFailure> found = getJobFailure();
  if (!found)
    throw Aborted();
  throw Error(statusOf(*found, activity));
}

void HeartbeatMonitor::abandon() {
  judged = true;
  notify(wake);
}

void HeartbeatMonitor::failLost(int peer, const std::string &activity, const std::string &reason) {
  // The peer may have ended because another rank failed. Give rank 0 time to report the failure of
  // the other rank.
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait_for(lock, std::chrono::duration<double>(graceSeconds / 2),
                     [&] { return jobFailure.has_value(); });
  }
  throw Error(statusOf(report({peer, StatusCode::Failed, "was lost: " + reason, false}), activity));
}

void HeartbeatMonitor::setLastResort(std::function<void(const Status &)> function) {
  std::lock_guard<std::mutex> lock(mutex);
  lastResort = std::move(function);
}

void HeartbeatMonitor::leave() {
  std::lock_guard<std::mutex> lock(mutex);
  leaving = true;
  for (Link &link : links)
    send(link, Farewell, {});
}

} // namespace psrt
