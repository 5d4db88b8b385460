// Defines sources of samples: token files (a sample is a window of tokens), safetensors files,
// NumPy files, and tensors in memory.
#ifndef PSRT_DATA_SAMPLES_H
#define PSRT_DATA_SAMPLES_H

#include "runtime/core/Program.h"
#include <memory>

namespace psrt {

/// A random-access source of samples. Reading is thread-safe.
class SampleSource {
public:
  virtual ~SampleSource() = default;
  virtual int64_t samples() const = 0;
  /// Returns one sample of an input: row-major elements without the batch dim, in the input's
  /// dtype. The result points into the source's data or to `scratch`, which must have room for a
  /// sample. An input without a batch dim has the same elements for every sample.
  virtual const char *read(const Input &input, int64_t sample, char *scratch) const = 0;
  /// Returns the location of an element for messages: "text.bin, byte offset 123".
  virtual std::string where(const Input &input, int64_t sample, int64_t element) const = 0;
  /// Returns how to read the data if its values do not fit the model, such as with another
  /// --data-type; "" if no other way is known.
  virtual std::string suggestReading() const { return ""; }
  /// Returns the names of tensors of the source that no input reads.
  virtual std::vector<std::string> unread() const { return {}; }
};

/// The token type of .bin files; the value is the bytes per token.
enum class TokenType : uint8_t { Uint8 = 1, Uint16 = 2, Uint32 = 4 };

template <> struct EnumNames<TokenType> {
  static constexpr const char *what = "token type";
  static constexpr EnumName<TokenType> table[] = {
      {TokenType::Uint8, "uint8"}, {TokenType::Uint16, "uint16"}, {TokenType::Uint32, "uint32"}};
};

/// The data flags of a run.
struct DataOptions {
  std::vector<std::string> files;
  /// nullopt: uint8 if every input has a `limit` of at most 256, else uint16
  std::optional<TokenType> type;
  std::optional<LabelRule> labels;                   ///< next or same; nullopt: as in the program
  std::vector<std::pair<std::string, double>> fills; ///< inputs with a constant value
  const char *flag = "--data"; ///< the flag that names the files, for messages
};

/// Returns true if a data file has the ending of a format with one tensor per input.
bool holdsTensors(const std::string &path);

/// Expands patterns such as "part-*.npz" to files. A pattern without a match is returned unchanged.
std::vector<std::string> expandPatterns(const std::vector<std::string> &patterns);

/// Opens the files of `--data`: .safetensors, .npz or .npy files, or .bin token files. Several
/// files are concatenated, in order. Expands patterns.
std::unique_ptr<SampleSource> openData(const Program &program, const DataOptions &options);

/// A whole tensor in the caller's memory, with samples along the batch dim.
struct HostTensor {
  std::string name;
  Dtype dtype;
  std::vector<int64_t> shape;
  const char *data;
};

/// Makes a source of tensors in memory. Checks names, dtypes and shapes against the inputs. Errors
/// begin with `origin`.
std::unique_ptr<SampleSource> makeMemorySource(const std::vector<const Input *> &inputs,
                                               std::vector<HostTensor> tensors,
                                               const std::string &origin);

/// Returns the number of elements of one sample of an input.
int64_t sampleElements(const Input &input);

} // namespace psrt

#endif
