// Reads any range of a tensor from the shards of a checkpoint.
#ifndef PSRT_SESSION_SHARDREADER_H
#define PSRT_SESSION_SHARDREADER_H

#include "runtime/session/Shards.h"
#include <mutex>
#include <optional>

namespace psrt {

/// A tensor file of a checkpoint. The first use maps the file and compares its hash with the hash
/// in the index.
class ShardFile {
public:
  /// A shard that the index expects in the file.
  struct Expected {
    std::string tensor;
    Dtype dtype;
    int64_t offset, bytes;
  };
  ShardFile(std::string path, std::string hash, int64_t bytes)
      : path(std::move(path)), hash(std::move(hash)), bytes(bytes) {}
  int64_t size() const { return bytes; }
  void expect(Expected shard) { expected.push_back(std::move(shard)); }
  /// Opens the file. Fails with BadInput if its bytes have changed or if its header disagrees with
  /// the index. Thread-safe.
  const MappedFile &open();

private:
  void checkShards() const;
  std::string path, hash;
  int64_t bytes;
  std::mutex mutex;
  std::optional<MappedFile> file;
  std::vector<Expected> expected;
};

/// Returns a 64-bit hash of bytes, as 16 hex digits.
std::string hashOfBytes(const char *data, size_t bytes);
/// Returns the hash of a file's bytes.
std::string hashOfFile(const MappedFile &file);

/// Elements of a tensor, stored row-major in a file from `offset` on.
struct SavedShard {
  ShardFile *file = nullptr;
  int64_t offset = 0;
  IndexRanges ranges;
};

/// A tensor of a checkpoint; its shards cover each element once.
struct SavedTensor {
  std::string name;
  Dtype dtype = Dtype::F32;
  std::vector<int64_t> shape;
  std::vector<SavedShard> shards;
};

/// Reads a part of a saved tensor, and converts floats to `dtype`. The saved tensor must outlive
/// the reader.
class ShardReader {
public:
  /// Selects the part that begins at the indices `lower` (empty: 0) and has the shape `shape`.
  ShardReader(const SavedTensor &tensor, std::vector<int64_t> shape, std::vector<int64_t> lower,
              Dtype dtype);
  /// Reads the elements [first, first + count) of the part, in row-major order. Opens the files
  /// that contain these elements. Fails with BadInput if one of these elements is in no shard.
  void read(char *to, int64_t first, int64_t count) const;

private:
  void joinInnerDims();
  void readRow(char *to, const std::vector<int64_t> &index, int64_t count) const;
  int64_t readRow(const SavedShard &shard, const std::vector<int64_t> &counts, char *to,
                  const std::vector<int64_t> &index, int64_t count) const;

  const SavedTensor &tensor;
  /// The shape of the tensor, and the shape and the first indices of the part. Inner dims that
  /// neither the shards nor the part split are merged into the next outer dim. Example: a tensor
  /// [4, 8] whose shards split only dim 0 becomes [32].
  std::vector<int64_t> whole, shape, lower;
  Dtype dtype;
  std::vector<SavedShard> shards;
  std::vector<std::vector<int64_t>> counts; ///< shape of each shard
};

} // namespace psrt

#endif
