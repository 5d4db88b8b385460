// Finds the ranges of checkpoint files that contain the rows of a tensor.
#include "runtime/session/ShardReader.h"
#include "runtime/core/Element.h"
#include "runtime/data/Safetensors.h"
#include <algorithm>
#include <cstring>

namespace psrt {

std::string hashOfBytes(const char *data, size_t bytes) {
  // Similar to FNV-1a, first over words of 8 bytes, then over the remaining bytes.
  uint64_t hash = 0xCBF29CE484222325u;
  size_t words = bytes / 8;
  for (size_t i = 0; i < words; ++i) {
    uint64_t word;
    std::memcpy(&word, data + 8 * i, 8);
    hash = (hash ^ word) * 0x100000001B3u;
    hash ^= hash >> 29; // mixes high bits into low bits, which a multiplication cannot do
  }
  for (size_t i = 8 * words; i < bytes; ++i)
    hash = (hash ^ uint8_t(data[i])) * 0x100000001B3u;
  return format("%016llx", (unsigned long long)hash);
}

std::string hashOfFile(const MappedFile &file) {
  return hashOfBytes(file.data(), size_t(file.size()));
}

const MappedFile &ShardFile::open() {
  std::lock_guard<std::mutex> lock(mutex);
  if (file)
    return *file;
  MappedFile opened(path);
  if (hashOfFile(opened) != hash)
    PSRT_FAIL(BadInput,
              "\"%s\" was changed after it was written (its hash differs); load another checkpoint",
              path.c_str());
  checkShards();
  return file.emplace(std::move(opened));
}

void ShardFile::checkShards() const {
  SafetensorsFile header(path);
  std::map<int64_t, const SafetensorsFile::Tensor *> starts;
  for (const auto &[name, tensor] : header.tensors())
    if (tensor.bytes) // an empty tensor has the same offset as the next tensor
      starts.emplace(tensor.data - header.begin(), &tensor);
  for (const Expected &shard : expected) {
    auto found = starts.find(shard.offset);
    bool isThere = !shard.bytes || (found != starts.end() && found->second->bytes == shard.bytes &&
                                    found->second->dtype == shard.dtype);
    if (!isThere)
      PSRT_FAIL(
          BadInput,
          "\"%s\" does not match the checkpoint index: a shard of \"%s\" (%lld bytes of %s) is "
          "expected at offset %lld; load another checkpoint",
          path.c_str(), shard.tensor.c_str(), (long long)shard.bytes, dtypeName(shard.dtype),
          (long long)shard.offset);
  }
}

ShardReader::ShardReader(const SavedTensor &tensor, std::vector<int64_t> partShape,
                         std::vector<int64_t> partLower, Dtype dtype)
    : tensor(tensor), whole(tensor.shape), shape(std::move(partShape)), lower(std::move(partLower)),
      dtype(dtype), shards(tensor.shards) {
  lower.resize(shape.size());
  joinInnerDims();
  if (shape.empty()) { // treat a scalar as a row of one element
    whole = shape = {1};
    lower = {0};
    for (SavedShard &shard : shards)
      shard.ranges = {{{0, 1}}};
  }
  for (const SavedShard &shard : shards)
    counts.push_back(shapeOf(shard.ranges));
}

void ShardReader::joinInnerDims() {
  auto isWhole = [&](size_t d) {
    return shape[d] == whole[d] &&
           std::all_of(shards.begin(), shards.end(), [&](const SavedShard &shard) {
             const std::vector<IndexRange> &dim = shard.ranges[d];
             return dim.size() == 1 && dim[0].begin == 0 && dim[0].end == whole[d];
           });
  };
  while (shape.size() > 1 && isWhole(shape.size() - 1)) {
    int64_t inner = shape.back();
    for (std::vector<int64_t> *sizes : {&whole, &shape, &lower}) {
      sizes->pop_back();
      sizes->back() *= inner;
    }
    for (SavedShard &shard : shards) {
      shard.ranges.pop_back();
      for (IndexRange &range : shard.ranges.back())
        range = {range.begin * inner, range.end * inner};
    }
  }
}

void ShardReader::read(char *to, int64_t first, int64_t count) const {
  std::vector<int64_t> index(shape.size());
  while (count > 0) {
    int64_t rest = first;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
      index[d] = rest % shape[d] + lower[d];
    int64_t row = std::min(count, shape.back() - first % shape.back());
    readRow(to, index, row);
    to += row * dtypeSize(dtype), first += row, count -= row;
  }
}

/// Reads `count` elements within one row of the tensor, starting at `index`.
void ShardReader::readRow(char *to, const std::vector<int64_t> &index, int64_t count) const {
  int64_t found = 0;
  for (size_t i = 0; i < shards.size() && found < count; ++i)
    found += readRow(shards[i], counts[i], to, index, count);
  if (found != count)
    PSRT_FAIL(
        BadInput,
        "the checkpoint's shards do not cover each element of \"%s\" once; load another checkpoint",
        tensor.name.c_str());
}

/// Returns how many indices of the ranges precede `index`, or -1 if the ranges do not contain it.
/// Example: index 9 in the ranges [0, 2), [8, 10) gives 3.
static int64_t findIndex(const std::vector<IndexRange> &ranges, int64_t index) {
  int64_t before = 0;
  for (const IndexRange &range : ranges) {
    if (index >= range.begin && index < range.end)
      return before + index - range.begin;
    before += range.end - range.begin;
  }
  return -1;
}

/// Reads those elements of a row that are in one shard. Returns their number.
int64_t ShardReader::readRow(const SavedShard &shard, const std::vector<int64_t> &counts, char *to,
                             const std::vector<int64_t> &index, int64_t count) const {
  int64_t at = 0, found = 0, last = int64_t(index.size()) - 1;
  for (int64_t d = 0; d < last; ++d) {
    int64_t position = findIndex(shard.ranges[d], index[d]);
    if (position < 0)
      return 0;
    at = at * counts[d] + position;
  }
  at *= counts[last];
  for (const IndexRange &range : shard.ranges[last]) {
    int64_t begin = std::max(range.begin, index[last]);
    int64_t n = std::min(range.end, index[last] + count) - begin;
    if (n > 0) {
      const char *from = shard.file->open().data() + shard.offset +
                         (at + begin - range.begin) * dtypeSize(tensor.dtype);
      char *out = to + (begin - index[last]) * dtypeSize(dtype);
      if (dtype == tensor.dtype)
        std::memcpy(out, from, n * dtypeSize(dtype));
      else
        convertFloats(from, tensor.dtype, out, dtype, n);
      found += n;
    }
    at += range.end - range.begin;
  }
  return found;
}

} // namespace psrt
