// Connects with poll().
#include "runtime/bootstrap/Connector.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace psrt {

/// Timeout of an attempt in seconds. The timeout allows one resend, because TCP resends a lost
/// first packet after one second.
static constexpr double kSeconds = 2;

/// Sets the number of bytes after which poll() reports a connection as readable.
static void setLowest(const Socket &socket, int bytes) {
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

void Connector::start(const std::vector<Candidate> &candidates) {
  for (const Candidate &candidate : candidates) {
    auto isSame = [&](const Attempt &attempt) {
      return attempt.candidate.address == candidate.address &&
             attempt.candidate.port == candidate.port;
    };
    if (std::any_of(attempts.begin(), attempts.end(), isSame))
      continue;
    Socket socket = startConnecting(candidate.address, candidate.port);
    if (!socket) {
      errors[candidate.address] = errno;
      continue;
    }
    setLowest(socket, bytes);
    attempts.push_back({candidate, std::move(socket), secondsFromNow(kSeconds)});
  }
}

bool Connector::check(Attempt &attempt, short events) {
  int error = connectionError(attempt.socket);
  if (!error && !events && std::chrono::steady_clock::now() > attempt.until)
    error = ETIMEDOUT;
  if (error)
    errors[attempt.candidate.address] = error;
  return error != 0;
}

std::optional<Connector::Answer> Connector::take() {
  std::vector<pollfd> entries;
  for (const Attempt &attempt : attempts)
    entries.push_back({attempt.socket.get(), POLLIN, 0});
  poll(entries.data(), entries.size(), 0);
  std::optional<Answer> answer;
  std::vector<Attempt> rest;
  for (size_t i = 0; i < attempts.size(); ++i) {
    if (check(attempts[i], entries[i].revents))
      continue;
    if (entries[i].revents && !answer) {
      setLowest(attempts[i].socket, 1);
      answer = {std::move(attempts[i].candidate), std::move(attempts[i].socket)};
    } else {
      rest.push_back(std::move(attempts[i]));
    }
  }
  attempts = std::move(rest);
  return answer;
}

std::optional<Connector::Answer> Connector::next(Deadline until) {
  while (true) {
    if (std::optional<Answer> answer = take())
      return answer;
    if (std::chrono::steady_clock::now() >= until)
      return std::nullopt;
    std::vector<pollfd> entries;
    for (const Attempt &attempt : attempts)
      entries.push_back({attempt.socket.get(), POLLIN, 0});
    poll(entries.data(), entries.size(), millisecondsUntil(until) + 1);
  }
}

std::string Connector::describeErrors() const {
  std::map<std::string, int> all = errors;
  for (const Attempt &attempt : attempts)
    all.emplace(attempt.candidate.address, ETIMEDOUT);
  std::string text;
  bool equal = true;
  for (const auto &[address, error] : all) {
    equal &= error == all.begin()->second;
    text += (text.empty() ? "" : ", ") + address + ": " + std::strerror(error);
  }
  return equal && !all.empty() ? std::strerror(all.begin()->second) : text;
}

} // namespace psrt
