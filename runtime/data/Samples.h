// Where samples come from: flat token files cut into windows, safetensors and NumPy files, or
// tensors in memory.
#ifndef PSRT_DATA_SAMPLES_H
#define PSRT_DATA_SAMPLES_H

#include "runtime/core/Program.h"
#include <memory>

namespace psrt {

/// Random access to samples. Reading is thread-safe.
class SampleSource {
public:
  virtual ~SampleSource() = default;
  virtual int64_t samples() const = 0;
  /// One sample of one input: its elements row-major without the batch dim, in the input's dtype,
  /// either in place or in `scratch` (which has room for it). An input without batch dim is given
  /// whole for any sample.
  virtual const char *read(const Input &input, int64_t sample, char *scratch) const = 0;
  /// Where an element stands, for messages: "text.bin, byte offset 123".
  virtual std::string where(const Input &input, int64_t sample, int64_t element) const = 0;
  /// Names of what the source has and no input takes.
  virtual std::vector<std::string> unread() const { return {}; }
};

struct DataOptions {
  std::vector<std::string> files;
  std::string
      type; ///< uint8, uint16, uint32: of a .bin file; empty: from the limit of the tokens (uint16)
  std::string labels;                                ///< next, same; empty: as the program says
  std::vector<std::pair<std::string, double>> fills; ///< inputs that hold one value
};

/// Returns the files that patterns such as "part-*.npz" name; a pattern that names none as it is.
std::vector<std::string> expandPatterns(const std::vector<std::string> &patterns);

/// Opens `--data`: .safetensors, .npz or .npy files, or .bin files of tokens (a pattern may name
/// several), read one after the other.
std::unique_ptr<SampleSource> openData(const Program &program, const DataOptions &options);

/// A whole tensor in the caller's memory that holds samples along the batch dim.
struct HostTensor {
  std::string name;
  Dtype dtype;
  std::vector<int64_t> shape;
  const char *data;
};

/// Tensors in memory as samples; checks names, dtypes and shapes against the inputs.
std::unique_ptr<SampleSource> makeMemorySource(std::vector<const Input *> inputs,
                                               std::vector<HostTensor> tensors,
                                               const std::string &origin);

/// Elements of one sample of an input.
int64_t sampleElements(const Input &input);

} // namespace psrt

#endif
