// Making, writing and reading notices.
#include "runtime/comm/process/Notice.h"
#include "runtime/core/Status.h"
#include "runtime/data/OutputFile.h"
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sys/random.h>
#include <unistd.h>

namespace psrt {

/// The key by which a file is known as a notice, and the version of what it has.
static constexpr const char *kKey = "parashard_meeting";
static constexpr int kVersion = 1;

std::vector<Candidate> Notice::candidates() const {
  std::vector<Candidate> result;
  for (const auto &address : addresses)
    if (address[0])
      result.push_back({address, port});
  return result;
}

std::string Notice::describe() const {
  std::string result;
  for (const Candidate &candidate : candidates())
    result += (result.empty() ? "" : ", ") + candidate.address;
  return result + " port " + std::to_string(port);
}

static void addAddress(Notice &notice, const std::string &address) {
  for (auto &place : notice.addresses)
    if (!place[0]) {
      std::snprintf(place, sizeof(place), "%s", address.c_str());
      return;
    }
}

Notice makeNotice(const Socket &listener) {
  Notice notice;
  if (getrandom(&notice.job, sizeof(notice.job), 0) != sizeof(notice.job))
    PSRT_FAIL(Failed, "the system gives no random number: %s", std::strerror(errno));
  notice.port = portOf(listener);
  for (const std::string &address : ownAddresses())
    addAddress(notice, address);
  return notice;
}

static Notice parseNotice(const std::string &text) {
  nlohmann::json json = nlohmann::json::parse(text);
  if (json.at(kKey).get<int>() != kVersion)
    throw std::runtime_error("another version of " + std::string(kKey));
  Notice notice;
  notice.job = json.at("job").get<uint64_t>();
  notice.port = json.at("port").get<uint16_t>();
  for (const auto &address : json.at("addresses"))
    addAddress(notice, address.get<std::string>());
  return notice;
}

std::optional<Notice> readNotice(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    return std::nullopt;
  /// No notice is as long; what is may be a user's file of any size.
  constexpr size_t most = 4096;
  std::string text(most, '\0');
  stream.read(text.data(), most);
  text.resize(size_t(stream.gcount()));
  try {
    return parseNotice(text);
  } catch (const std::exception &error) {
    PSRT_FAIL(BadArgument,
              "PSRT_MEETING_FILE is \"%s\", which is there and says nothing of where processes "
              "meet (%s); name a file that is not there, in a folder that all hosts see",
              path.c_str(), error.what());
  }
}

PostedNotice::PostedNotice(const std::string &path, const Notice &notice)
    : path(path), job(notice.job) {
  readNotice(path); // what is something else stays
  nlohmann::json addresses = nlohmann::json::array();
  for (const Candidate &candidate : notice.candidates())
    addresses.push_back(candidate.address);
  nlohmann::json json = {
      {kKey, kVersion}, {"job", job}, {"port", notice.port}, {"addresses", std::move(addresses)}};
  std::string text = json.dump() + "\n";
  OutputFile file(path);
  file.write(text.data(), text.size());
  file.commit();
}

PostedNotice::~PostedNotice() {
  try {
    if (std::optional<Notice> notice = readNotice(path); notice && notice->job == job)
      unlink(path.c_str());
  } catch (const Error &) { // not ours any more
  }
}

} // namespace psrt
