// Reading any range of a tensor from the shards that it was written in.
#ifndef PSRT_SESSION_SHARDREADER_H
#define PSRT_SESSION_SHARDREADER_H

#include "runtime/session/Shards.h"
#include <mutex>
#include <optional>

namespace psrt {

/// A file of a checkpoint: mapped, and its bytes compared with their sum, when one first reads it.
class ShardFile {
public:
  /// A shard that an index says is in the file.
  struct Expected {
    std::string tensor;
    Dtype dtype;
    int64_t offset, bytes;
  };
  ShardFile(std::string path, std::string sum, int64_t bytes)
      : path(std::move(path)), sum(std::move(sum)), bytes(bytes) {}
  int64_t size() const { return bytes; }
  void expect(Expected shard) { expected.push_back(std::move(shard)); }
  /// Fails with BadInput when its bytes are not those that were written, or its own header has
  /// other shards than the index. Any thread may call it.
  const MappedFile &open();

private:
  void checkShards() const;
  std::string path, sum;
  int64_t bytes;
  std::mutex mutex;
  std::optional<MappedFile> file;
  std::vector<Expected> expected;
};

/// A sum of bytes, as 16 hex digits.
std::string sumOfBytes(const char *data, size_t bytes);
/// That of a file's bytes.
std::string sumOfFile(const MappedFile &file);

/// Elements of a tensor, row-major in a file from `offset` on.
struct SavedShard {
  ShardFile *file = nullptr;
  int64_t offset = 0;
  IndexRanges ranges;
};

/// A tensor of a checkpoint: its shards have each element once.
struct SavedTensor {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<int64_t> shape;
  std::vector<SavedShard> shards;
};

/// Reads a part of a saved tensor, as `dtype`; floats are converted. The tensor must outlive it.
class ShardReader {
public:
  /// The part that begins at `lower` (empty: at 0) and has `shape`.
  ShardReader(const SavedTensor &tensor, std::vector<int64_t> shape, std::vector<int64_t> lower,
              Dtype dtype);
  /// Elements [first, first + count) of the part, row-major. Opens the files that hold them. Fails
  /// with BadInput where the shards lack one.
  void read(char *to, int64_t first, int64_t count) const;

private:
  void joinInnerDims();
  void readRow(char *to, const std::vector<int64_t> &index, int64_t count) const;
  int64_t readRow(const SavedShard &shard, const std::vector<int64_t> &counts, char *to,
                  const std::vector<int64_t> &index, int64_t count) const;

  const SavedTensor &tensor;
  std::vector<int64_t> whole, shape, lower; ///< inner dims that all have whole are one
  Dtype dtype;
  std::vector<SavedShard> shards;
  std::vector<std::vector<int64_t>> counts; ///< by shard, the shape of it
};

} // namespace psrt

#endif
