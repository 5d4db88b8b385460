// Reads samples: windows of tokens, named tensors (safetensors, NumPy), and constant inputs.
#include "runtime/data/Samples.h"
#include "runtime/core/Status.h"
#include "runtime/data/NumpyFile.h"
#include "runtime/data/Safetensors.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <glob.h>
#include <set>
#include <unistd.h>

namespace psrt {

int64_t sampleElements(const Input &input) {
  int64_t count = input.placement.count();
  return input.batchDim < 0 ? count : count / input.placement.shape[input.batchDim];
}

namespace {

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string result = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    result += format("%s%lld", i ? ", " : "", (long long)shape[i]);
  return result + "]";
}

void storeValue(char *at, Dtype dtype, double value) {
  switch (dtype) {
  case Dtype::F32: {
    float x = float(value);
    std::memcpy(at, &x, 4);
    return;
  }
  case Dtype::F64:
    std::memcpy(at, &value, 8);
    return;
  case Dtype::I64: {
    int64_t x = int64_t(value);
    std::memcpy(at, &x, 8);
    return;
  }
  case Dtype::I32: {
    int32_t x = int32_t(value);
    std::memcpy(at, &x, 4);
    return;
  }
  case Dtype::I16: {
    int16_t x = int16_t(value);
    std::memcpy(at, &x, 2);
    return;
  }
  case Dtype::I8:
  case Dtype::U8:
  case Dtype::Bool:
    *at = char(int64_t(value));
    return;
  default:
    PSRT_FAIL(BadArgument, "--fill does not support inputs of %s", dtypeName(dtype));
  }
}

/// Returns the constants of --fill for the inputs that it names, and reads all other inputs from
/// another source.
class FilledSource : public SampleSource {
public:
  FilledSource(std::unique_ptr<SampleSource> rest,
               std::vector<std::pair<std::string, double>> fills)
      : rest(std::move(rest)), fills(std::move(fills)) {}
  int64_t samples() const override { return rest->samples(); }
  const char *read(const Input &input, int64_t sample, char *scratch) const override {
    for (const auto &[name, value] : fills)
      if (name == input.name) {
        int64_t size = dtypeSize(input.dtype);
        for (int64_t i = 0, n = sampleElements(input); i < n; ++i)
          storeValue(scratch + i * size, input.dtype, value);
        return scratch;
      }
    return rest->read(input, sample, scratch);
  }
  std::string where(const Input &input, int64_t sample, int64_t element) const override {
    for (const auto &[name, value] : fills)
      if (name == input.name)
        return format("--fill %s=%g", name.c_str(), value);
    return rest->where(input, sample, element);
  }
  std::vector<std::string> unread() const override {
    std::vector<std::string> names = rest->unread();
    auto isFilled = [&](const std::string &name) {
      return std::any_of(fills.begin(), fills.end(),
                         [&](const auto &fill) { return fill.first == name; });
    };
    names.erase(std::remove_if(names.begin(), names.end(), isFilled), names.end());
    return names;
  }

private:
  std::unique_ptr<SampleSource> rest;
  std::vector<std::pair<std::string, double>> fills;
};

//===--- tensors by name --------------------------------------------------===//

/// Reads samples from named tensors, along the batch dim of each input.
class TensorSource : public SampleSource {
public:
  TensorSource(const std::vector<const Input *> &inputs, std::vector<HostTensor> tensors,
               std::string origin, std::shared_ptr<void> file = nullptr)
      : file(std::move(file)), origin(std::move(origin)), tensors(std::move(tensors)) {
    std::set<std::string> names;
    for (const Input *input : inputs) {
      check(*input);
      names.insert(input->name);
    }
    for (const HostTensor &tensor : this->tensors)
      if (!names.contains(tensor.name))
        unreadNames.push_back(tensor.name);
    if (count < 0)
      count = 1;
  }
  std::vector<std::string> unread() const override { return unreadNames; }
  int64_t samples() const override { return count; }

  const char *read(const Input &input, int64_t sample, char *scratch) const override {
    const HostTensor &tensor = find(input);
    int64_t size = dtypeSize(input.dtype);
    if (input.batchDim < 0)
      return tensor.data;
    int64_t outer = 1, inner = size;
    for (int d = 0; d < int(tensor.shape.size()); ++d)
      (d < input.batchDim ? outer : inner) *= d == input.batchDim ? 1 : tensor.shape[d];
    if (outer == 1)
      return tensor.data + sample * inner;
    for (int64_t o = 0; o < outer; ++o)
      std::memcpy(scratch + o * inner,
                  tensor.data + (o * tensor.shape[input.batchDim] + sample) * inner, inner);
    return scratch;
  }

  std::string where(const Input &input, int64_t sample, int64_t element) const override {
    return format("%s, input \"%s\", sample %lld, element %lld", origin.c_str(), input.name.c_str(),
                  (long long)sample, (long long)element);
  }

private:
  const HostTensor &find(const Input &input) const {
    for (const HostTensor &tensor : tensors)
      if (tensor.name == input.name)
        return tensor;
    std::string names;
    for (const HostTensor &tensor : tensors)
      names += (names.empty() ? "" : ", ") + tensor.name;
    PSRT_FAIL(BadInput, "%s has no tensor \"%s\" for the input of that name; it has: %s",
              origin.c_str(), input.name.c_str(), names.empty() ? "nothing" : names.c_str());
  }

  void check(const Input &input) {
    const HostTensor &tensor = find(input);
    if (tensor.dtype != input.dtype)
      PSRT_FAIL(BadInput, "%s: tensor \"%s\" is %s, but the model's input is %s; convert it",
                origin.c_str(), input.name.c_str(), dtypeName(tensor.dtype),
                dtypeName(input.dtype));
    std::vector<int64_t> expected = input.placement.shape;
    if (tensor.shape.size() == expected.size() && input.batchDim >= 0)
      expected[input.batchDim] = tensor.shape[input.batchDim];
    if (tensor.shape != expected)
      PSRT_FAIL(
          BadInput,
          "%s: tensor \"%s\" has shape %s, but the model's input has %s (samples along dim %d)",
          origin.c_str(), input.name.c_str(), shapeText(tensor.shape).c_str(),
          shapeText(input.placement.shape).c_str(), input.batchDim);
    if (input.batchDim < 0)
      return;
    int64_t rows = tensor.shape[input.batchDim];
    if (count >= 0 && rows != count)
      PSRT_FAIL(BadInput,
                "%s: tensor \"%s\" has %lld samples, but tensor \"%s\" has %lld; all tensors "
                "must have the same number of samples",
                origin.c_str(), input.name.c_str(), (long long)rows, counted.c_str(),
                (long long)count);
    count = rows;
    counted = input.name;
  }

  std::shared_ptr<void> file; ///< the file that owns the memory of the tensors
  std::string origin;
  std::vector<HostTensor> tensors;
  int64_t count = -1;
  std::string counted; ///< the input that set `count`
  std::vector<std::string> unreadNames;
};

/// Concatenates sources. Reads inputs without a batch dim from the first source.
class JoinedSource : public SampleSource {
public:
  explicit JoinedSource(std::vector<std::unique_ptr<SampleSource>> newParts)
      : parts(std::move(newParts)) {
    for (const std::unique_ptr<SampleSource> &part : parts)
      ends.push_back((ends.empty() ? 0 : ends.back()) + part->samples());
  }
  int64_t samples() const override { return ends.back(); }
  const char *read(const Input &input, int64_t sample, char *scratch) const override {
    size_t part = find(sample);
    return parts[part]->read(input, sample - begin(part), scratch);
  }
  std::string where(const Input &input, int64_t sample, int64_t element) const override {
    size_t part = find(sample);
    return parts[part]->where(input, sample - begin(part), element);
  }
  std::vector<std::string> unread() const override {
    std::set<std::string> names;
    for (const std::unique_ptr<SampleSource> &part : parts)
      for (const std::string &name : part->unread())
        names.insert(name);
    return {names.begin(), names.end()};
  }

private:
  size_t find(int64_t sample) const {
    return std::upper_bound(ends.begin(), ends.end(), sample) - ends.begin();
  }
  int64_t begin(size_t part) const { return part ? ends[part - 1] : 0; }

  std::vector<std::unique_ptr<SampleSource>> parts;
  std::vector<int64_t> ends; ///< end of each part, in samples
};

//===--- token windows ----------------------------------------------------===//

/// Cuts the tokens of files into consecutive windows. With `next`, labels are the tokens shifted by
/// one position.
class TokenSource : public SampleSource {
public:
  TokenSource(std::vector<MappedFile> newFiles, int width, int64_t window, bool next)
      : files(std::move(newFiles)), width(width), window(window), next(next) {
    for (const MappedFile &file : files) {
      if (file.size() % width != 0)
        PSRT_FAIL(BadInput,
                  "\"%s\" has %zu bytes, which is not a multiple of the token size %d; %s",
                  file.path().c_str(), file.size(), width, suggestReading().c_str());
      if (file.size() == 0 && files.size() > 1)
        PSRT_FAIL(BadInput, "\"%s\" has no tokens; remove the file", file.path().c_str());
      tokens += int64_t(file.size() / width);
      ends.push_back(tokens);
    }
    count = std::max<int64_t>(0, (tokens - (next ? 1 : 0)) / window);
    if (count == 0)
      PSRT_FAIL(BadInput,
                "the data has %lld tokens (\"%s\"%s), but one sample needs %lld; give more data",
                (long long)tokens, files.front().path().c_str(),
                files.size() > 1 ? " and the other files" : "",
                (long long)(window + (next ? 1 : 0)));
  }
  int64_t samples() const override { return count; }

  std::string suggestReading() const override {
    if (width == 1)
      return "";
    return format("the tokens are read as %s; %s", nameOf(TokenType(width)),
                  width == 2 ? "if each byte is a token, give --data-type uint8"
                             : "if a token has 1 or 2 bytes, give --data-type uint8 or uint16");
  }

  const char *read(const Input &input, int64_t sample, char *scratch) const override {
    int64_t at = start(input, sample), size = dtypeSize(input.dtype);
    for (int64_t i = 0; i < window; ++i) {
      int64_t value = token(at + i);
      std::memcpy(scratch + i * size, &value, size); // little-endian
    }
    return scratch;
  }

  std::string where(const Input &input, int64_t sample, int64_t element) const override {
    int64_t at = start(input, sample) + element;
    size_t file = std::upper_bound(ends.begin(), ends.end(), at) - ends.begin();
    return format("\"%s\", byte offset %lld", files[file].path().c_str(),
                  (long long)(at - (file ? ends[file - 1] : 0)) * width);
  }

private:
  int64_t start(const Input &input, int64_t sample) const {
    return sample * window + (next && input.role == InputRole::Labels ? 1 : 0);
  }
  int64_t token(int64_t at) const {
    size_t file =
        files.size() == 1 ? 0 : std::upper_bound(ends.begin(), ends.end(), at) - ends.begin();
    const char *data = files[file].data() + (at - (file ? ends[file - 1] : 0)) * width;
    uint32_t value = 0;
    std::memcpy(&value, data, width);
    return value;
  }

  std::vector<MappedFile> files;
  std::vector<int64_t> ends;
  int width;
  int64_t window, tokens = 0, count = 0;
  bool next;
};

std::vector<const Input *> inputsOf(const Program &program, const DataOptions &options) {
  std::vector<const Input *> result;
  for (const Input &input : program.inputs) {
    bool known = input.role == InputRole::Cotangent || input.readers == Readers::Inference;
    for (const auto &[name, value] : options.fills)
      known |= name == input.name;
    for (const Input *other : result)
      known |= other->name == input.name;
    if (!known)
      result.push_back(&input);
  }
  return result;
}

/// Returns whether labels are the next tokens, according to the program, or to `--labels` if the
/// program does not specify the rule. Fails if the two rules differ, since the model would then
/// train on the wrong tokens.
bool labelsAreNext(const Program &program, const DataOptions &options) {
  LabelRule labels = options.labels.value_or(program.labels);
  if (labels == LabelRule::Given)
    PSRT_FAIL(BadArgument, "the model does not show how the labels are derived from the tokens; "
                           "give --labels next (labels[t] = x[t+1]) or --labels same (the model "
                           "shifts the labels)");
  if (program.labels != LabelRule::Given && program.labels != labels)
    PSRT_FAIL(BadArgument,
              "--labels %s contradicts the model: its graph %s, so the model would train on the "
              "wrong token; omit --labels (the default is %s)",
              nameOf(labels),
              program.labels == LabelRule::Same
                  ? "shifts the labels by one"
                  : "compares each label with the logits at the same position",
              nameOf(program.labels));
  return labels == LabelRule::Next;
}

int tokenWidth(const DataOptions &options, const std::vector<const Input *> &inputs) {
  if (options.type)
    return int(*options.type);
  bool small = true;
  for (const Input *input : inputs)
    small &= input->limit > 0 && input->limit <= 256;
  return small ? 1 : 2;
}

std::unique_ptr<SampleSource> openTokens(const Program &program, const DataOptions &options,
                                         const std::vector<std::string> &paths) {
  std::vector<const Input *> inputs = inputsOf(program, options);
  int64_t window = 0;
  bool labelled = false;
  for (const Input *input : inputs) {
    bool integer = input->dtype == Dtype::I64 || input->dtype == Dtype::I32;
    if (!integer || input->placement.shape.size() != 2 || input->batchDim != 0)
      PSRT_FAIL(BadInput,
                "input \"%s\" is %s %s, but tokens only fit integer inputs of shape [batch, "
                "length]; give a .safetensors file, or --fill %s=VALUE",
                input->name.c_str(), dtypeName(input->dtype),
                shapeText(input->placement.shape).c_str(), input->name.c_str());
    if (window && window != input->placement.shape[1])
      PSRT_FAIL(BadInput,
                "inputs of lengths %lld and %lld cannot both be filled with tokens; give a "
                ".safetensors file",
                (long long)window, (long long)input->placement.shape[1]);
    window = input->placement.shape[1];
    labelled |= input->role == InputRole::Labels;
  }
  std::vector<MappedFile> files;
  for (const std::string &path : paths)
    files.emplace_back(path);
  return std::make_unique<TokenSource>(std::move(files), tokenWidth(options, inputs),
                                       std::max<int64_t>(1, window),
                                       labelled && labelsAreNext(program, options));
}

} // namespace

/// The format of a data file, given by the extension of its name.
enum class DataFormat : uint8_t { Safetensors, Npz, Npy, Tokens };

template <> struct EnumNames<DataFormat> {
  static constexpr EnumName<DataFormat> table[] = {{DataFormat::Safetensors, ".safetensors"},
                                                   {DataFormat::Npz, ".npz"},
                                                   {DataFormat::Npy, ".npy"},
                                                   {DataFormat::Tokens, ".bin"}};
};

/// Returns the format of a file that `flag` names. Fails on an unknown extension.
static DataFormat findFormat(const std::string &path, const char *flag = "--data") {
  for (const EnumName<DataFormat> &format : EnumNames<DataFormat>::table)
    if (path.ends_with(format.name))
      return format.value;
  PSRT_FAIL(BadArgument,
            "%s: \"%s\" %s; give a .safetensors, .npz or .npy file of tensors, or a "
            ".bin file of tokens",
            flag, path.c_str(),
            std::filesystem::is_directory(path) ? "is a folder" : "has an unknown format");
}

bool holdsTensors(const std::string &path) {
  return std::any_of(std::begin(EnumNames<DataFormat>::table),
                     std::end(EnumNames<DataFormat>::table),
                     [&](const EnumName<DataFormat> &format) {
                       return format.value != DataFormat::Tokens && path.ends_with(format.name);
                     });
}

/// Returns the common format of the files; nullopt for an empty list. Fails if formats differ or a
/// file is missing.
static std::optional<DataFormat> checkFormats(const std::vector<std::string> &paths,
                                              const char *flag) {
  std::optional<DataFormat> common;
  for (const std::string &path : paths) {
    DataFormat format = findFormat(path, flag);
    if (common.value_or(format) != format)
      PSRT_FAIL(BadArgument, "%s mixes \"%s\" and \"%s\"; give files of one kind", flag,
                paths.front().c_str(), path.c_str());
    common = format;
  }
  for (const std::string &path : paths) {
    if (path.find_first_of("*?[") != std::string::npos && !std::filesystem::exists(path))
      PSRT_FAIL(BadArgument, "%s: no file matches \"%s\"", flag, path.c_str());
    checkReadable(flag, path);
  }
  return common;
}

/// Gives the array of a .npy file the name of the only input. Fails if the model has several
/// inputs.
static void nameArray(HostTensor &array, const std::vector<const Input *> &inputs,
                      const std::string &path) {
  std::string names;
  for (const Input *input : inputs)
    names += (names.empty() ? "" : ", ") + input->name;
  if (inputs.size() != 1)
    PSRT_FAIL(BadArgument,
              "data \"%s\" is one array, but the model has the inputs %s; give a .npz file with an "
              "array for each (numpy.savez), or use --fill for the others",
              path.c_str(), names.c_str());
  array.name = inputs.front()->name;
}

/// Opens a file and appends its tensors to `tensors`. Returns the file, which owns their memory.
static std::shared_ptr<void> openFile(const std::string &path,
                                      const std::vector<const Input *> &inputs,
                                      std::vector<HostTensor> &tensors) {
  if (findFormat(path) == DataFormat::Safetensors) {
    auto file = std::make_shared<SafetensorsFile>(path);
    for (const auto &[name, tensor] : file->tensors())
      tensors.push_back({name, tensor.dtype, tensor.shape, tensor.data});
    return file;
  }
  auto file = std::make_shared<NumpyFile>(path);
  tensors = file->arrays();
  if (findFormat(path) == DataFormat::Npy)
    nameArray(tensors.front(), inputs, path);
  return file;
}

static std::unique_ptr<SampleSource> openTensors(const Program &program, const DataOptions &options,
                                                 const std::vector<std::string> &paths) {
  std::vector<const Input *> inputs = inputsOf(program, options);
  std::vector<std::unique_ptr<SampleSource>> parts;
  for (const std::string &path : paths) {
    std::vector<HostTensor> tensors;
    std::shared_ptr<void> file = openFile(path, inputs, tensors);
    parts.push_back(std::make_unique<TensorSource>(
        inputs, std::move(tensors), format("\"%s\"", path.c_str()), std::move(file)));
  }
  if (parts.size() == 1)
    return std::move(parts.front());
  return std::make_unique<JoinedSource>(std::move(parts));
}

/// Returns the smallest and the largest double that fit an integer type. Example: -128 and 127 for
/// i8; -2^63 and 2^63 - 1024 for i64.
static std::pair<double, double> limitsOf(Dtype dtype) {
  switch (dtype) {
  case Dtype::Bool:
    return {0, 1};
  case Dtype::U8:
    return {0, 255};
  default:
    double bits = double(8 * dtypeSize(dtype) - 1), least = -std::exp2(bits);
    return {least, dtype == Dtype::I64 ? std::nextafter(-least, 0) : -least - 1};
  }
}

/// Fails if an integer input cannot hold the value of --fill.
static void checkFill(const Input &input, double value) {
  if (input.dtype <= Dtype::BF16) // float types come first
    return;
  auto [least, largest] = limitsOf(input.dtype);
  if (std::trunc(value) != value || !(value >= least && value <= largest))
    PSRT_FAIL(BadArgument,
              "--fill %s=%.17g: the input is %s; give a whole number from %.0f to %.0f",
              input.name.c_str(), value, dtypeName(input.dtype), least, largest);
}

/// Checks that every input of --fill is an input of the model, and that its value fits.
static void checkFills(const Program &program, const DataOptions &options) {
  for (const auto &[name, value] : options.fills) {
    std::string names;
    bool known = false;
    for (const Input &input : program.inputs) {
      if (input.readers == Readers::Inference)
        continue;
      known |= input.name == name;
      if (input.name == name)
        checkFill(input, value);
      if (names.find(input.name) == std::string::npos)
        names += (names.empty() ? "" : ", ") + input.name;
    }
    if (!known)
      PSRT_FAIL(BadArgument, "--fill has the unknown input \"%s\"; the model has: %s", name.c_str(),
                names.c_str());
  }
}

std::vector<std::string> expandPatterns(const std::vector<std::string> &patterns) {
  std::vector<std::string> result;
  for (const std::string &pattern : patterns) {
    glob_t found;
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
      for (size_t i = 0; i < found.gl_pathc; ++i)
        result.emplace_back(found.gl_pathv[i]);
    else
      result.push_back(pattern); // opening the file reports the error
    globfree(&found);
  }
  return result;
}

std::unique_ptr<SampleSource> openData(const Program &program, const DataOptions &options) {
  checkFills(program, options);
  std::vector<std::string> paths = expandPatterns(options.files);
  std::unique_ptr<SampleSource> result = checkFormats(paths, options.flag) == DataFormat::Tokens
                                             ? openTokens(program, options, paths)
                                             : openTensors(program, options, paths);
  if (!options.fills.empty())
    result = std::make_unique<FilledSource>(std::move(result), options.fills);
  return result;
}

std::unique_ptr<SampleSource> makeMemorySource(const std::vector<const Input *> &inputs,
                                               std::vector<HostTensor> tensors,
                                               const std::string &origin) {
  return std::make_unique<TensorSource>(inputs, std::move(tensors), origin);
}

} // namespace psrt
