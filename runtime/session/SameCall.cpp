// Compares calls by one hash; exchanges texts only if the hashes differ.
#include "runtime/session/SameCall.h"
#include "runtime/bootstrap/Processes.h"
#include <algorithm>

namespace psrt {
namespace {

/// The parts of a call, and the problem of the process, as they are sent to rank 0.
using Parts = std::vector<std::string>;
enum Part : size_t { Name, Settings, Inputs, Code, Step, Message };

Parts describe(const HostCall &call, const std::optional<Status> &problem) {
  Status status = problem.value_or(Status());
  return {call.name,
          std::to_string(call.settings),
          std::to_string(call.inputs),
          std::to_string(int(status.code)),
          std::to_string(status.step),
          status.message};
}

std::string join(const Parts &parts) {
  std::string text;
  for (const std::string &part : parts)
    text += std::to_string(part.size()) + ' ' + part;
  return text;
}

Parts split(const std::string &text) {
  Parts parts;
  for (size_t at = 0; at < text.size();) {
    size_t space = text.find(' ', at);
    size_t bytes = std::stoul(text.substr(at, space - at));
    parts.push_back(text.substr(space + 1, bytes));
    at = space + 1 + bytes;
  }
  return parts;
}

/// Returns the problem of a rank, with the rank.
Status findProblem(const Parts &parts, size_t rank) {
  Status status;
  status.code = StatusCode(std::stoi(parts.at(Code)));
  status.step = std::stoll(parts.at(Step));
  status.message = parts.at(Message);
  status.rank = int(rank);
  return status;
}

/// Returns why the calls of two ranks differ.
Status explain(const Parts &first, const Parts &other, size_t rank) {
  Status status;
  status.code = StatusCode::BadArgument;
  const char *call = first.at(Name).c_str();
  if (first[Name] != other.at(Name))
    status.message = format("the processes of the job make different calls: rank 0 %s, and rank "
                            "%zu %s; all processes must make the same calls in the same order, "
                            "also calls that only read",
                            call, rank, other[Name].c_str());
  else if (first.at(Settings) != other.at(Settings))
    status.message = format("rank %zu %s, but has set other scalars (such as lr) or another step "
                            "than rank 0; set the same values in all processes",
                            rank, call);
  else
    status.message =
        format("rank %zu %s with other tensors than rank 0; every process must give the whole "
               "batch: use the same order and seed in all processes, and no DistributedSampler",
               rank, call);
  return status;
}

/// Runs on rank 0: returns the error of all processes.
Status judge(const std::vector<std::string> &texts) {
  std::vector<Parts> calls;
  for (const std::string &text : texts)
    calls.push_back(split(text));
  for (size_t rank = 0; rank < calls.size(); ++rank)
    if (Status problem = findProblem(calls[rank], rank); !problem.ok())
      return problem;
  for (size_t rank = 1; rank < calls.size(); ++rank)
    if (calls[rank] != calls[0])
      return explain(calls[0], calls[rank], rank);
  return {};
}

} // namespace

uint64_t hashTensors(const psrt_tensor *tensors, size_t count) {
  constexpr int64_t kBlock = 4096, kBlocks = 16;
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    int64_t bytes = dtypeSize(Dtype(tensors[i].dtype));
    text += format("%s %d", tensors[i].name, int(tensors[i].dtype));
    for (int32_t d = 0; d < tensors[i].rank; ++d) {
      text += format(" %lld", (long long)tensors[i].shape[d]);
      bytes *= tensors[i].shape[d];
    }
    const char *data = static_cast<const char *>(tensors[i].data);
    if (bytes <= kBlock * kBlocks) {
      text.append(data, bytes);
      continue;
    }
    for (int64_t block = 0; block < kBlocks; ++block)
      text.append(data + (bytes - kBlock) * block / (kBlocks - 1), kBlock);
  }
  return hashText(text);
}

void checkSameCall(Job &job, const HostCall &call, const std::optional<Status> &problem) {
  Parts parts = describe(call, problem);
  if (job.agree(hashText(join(parts)))) {
    if (problem)
      throw Error(*problem);
    return;
  }
  std::vector<std::string> texts = job.collect(join(parts));
  Parts verdict;
  if (job.rank() == 0) {
    Status status = judge(texts);
    verdict = describe({}, status);
    verdict.push_back(std::to_string(status.rank));
  }
  verdict = split(job.broadcast(join(verdict)));
  Status status = findProblem(verdict, 0);
  status.rank = std::stoi(verdict.back());
  throw Error(status);
}

} // namespace psrt
