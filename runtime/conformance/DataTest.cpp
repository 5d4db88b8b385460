// Tests shuffling, safetensors files, the parsing of programs, the conversion of floats, token
// windows and the order of samples.
#include "runtime/core/Arena.h"
#include "runtime/core/Element.h"
#include "runtime/core/Status.h"
#include "runtime/data/Batches.h"
#include "runtime/data/Safetensors.h"
#include "runtime/data/Shuffle.h"
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace psrt;

static std::string temporary(const std::string &name) {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("psrt-data-test-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  return folder / name;
}

static std::string errorOf(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    std::string message = error.what();
    EXPECT_EQ(message.find("json.exception"), std::string::npos) << message;
    return message;
  }
  return "";
}

TEST(Shuffle, IsAPermutationThatDependsOnSeedAndEpoch) {
  for (int64_t count : {1, 2, 3, 17, 1000, 4097}) {
    std::vector<bool> seen(count);
    int64_t fixed = 0, same = 0;
    for (int64_t i = 0; i < count; ++i) {
      int64_t x = shuffledIndex(i, count, 7, 0);
      ASSERT_TRUE(x >= 0 && x < count && !seen[x]);
      seen[x] = true;
      fixed += x == i;
      same += x == shuffledIndex(i, count, 7, 1);
    }
    if (count >= 1000) {
      EXPECT_LT(fixed, 20);
      EXPECT_LT(same, 20);
    }
  }
}

TEST(Safetensors, RoundTrip) {
  std::string path = temporary("a.safetensors");
  SafetensorsWriter writer;
  writer.add("x", Dtype::F32, {2, 2}, [](char *data) {
    float values[] = {1, 2, 3, 4};
    std::memcpy(data, values, 16);
  });
  writer.add("s", Dtype::I64, {}, [](char *data) {
    int64_t value = -5;
    std::memcpy(data, &value, 8);
  });
  writer.write(path);
  SafetensorsFile file(path);
  ASSERT_TRUE(file.find("x") && file.find("s"));
  EXPECT_EQ(file.find("x")->shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(reinterpret_cast<const float *>(file.find("x")->data)[3], 4);
  int64_t value;
  std::memcpy(&value, file.find("s")->data, 8);
  EXPECT_EQ(value, -5);
  EXPECT_EQ(file.find("y"), nullptr);
}

TEST(Safetensors, TruncatedAndForeignFilesAreErrors) {
  std::string path = temporary("b.safetensors");
  SafetensorsWriter writer;
  writer.add("x", Dtype::F32, {100}, [](char *data) { std::memset(data, 0, 400); });
  writer.write(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  EXPECT_NE(errorOf([&] { SafetensorsFile file(path); }).find("truncated"), std::string::npos);
  std::ofstream(path) << "hello";
  EXPECT_NE(errorOf([&] { SafetensorsFile file(path); }).find("not a safetensors file"),
            std::string::npos);
  EXPECT_NE(errorOf([&] { SafetensorsFile file("/nowhere/x.safetensors"); }).find("cannot read"),
            std::string::npos);
  EXPECT_NE(errorOf([&] { writer.write("/nowhere/x.safetensors"); }).find("cannot write"),
            std::string::npos);
}

/// Writes a file with this header and four bytes of data.
static std::string writeHeader(const std::string &header) {
  std::string path = temporary("header.safetensors");
  uint64_t size = header.size();
  std::ofstream stream(path, std::ios::binary);
  stream.write(reinterpret_cast<const char *>(&size), 8);
  stream << header << std::string(4, '\0');
  return path;
}

TEST(Safetensors, DuplicateAndUnknownKeysAreErrors) {
  std::string x = R"("x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4])";
  EXPECT_EQ(errorOf([&] { SafetensorsFile file(writeHeader("{" + x + "}}")); }), "");
  EXPECT_NE(errorOf([&] {
              SafetensorsFile file(writeHeader("{" + x + "}, " + x + "}}"));
            }).find("not a valid safetensors file: \"x\" is given twice in one object"),
            std::string::npos);
  EXPECT_NE(errorOf([&] {
              SafetensorsFile file(writeHeader("{" + x + ", \"scale\": 2}}"));
            }).find("the unknown key \"x\".\"scale\"; expected dtype, shape"),
            std::string::npos);
  EXPECT_NE(errorOf([&] { SafetensorsFile file(writeHeader(R"({"x": )")); }).find("parse error"),
            std::string::npos);
  EXPECT_NE(errorOf([&] { SafetensorsFile file(writeHeader(R"({"x": 1e999})")); }).find("overflow"),
            std::string::npos);
}

/// Returns the bits of a number rounded to a 16-bit float.
static uint16_t roundedBits(double value, Dtype dtype) {
  uint16_t bits;
  storeElement(reinterpret_cast<char *>(&bits), dtype, value);
  return bits;
}

TEST(Floats, EveryHalfAndBfloat16RoundTrips) {
  for (Dtype dtype : {Dtype::F16, Dtype::BF16})
    for (uint32_t i = 0; i < 0x10000; ++i) {
      uint16_t bits = uint16_t(i);
      double value = loadFloat(reinterpret_cast<const char *>(&bits), dtype);
      uint16_t back = roundedBits(value, dtype);
      if (std::isnan(value))
        ASSERT_TRUE(std::isnan(loadFloat(reinterpret_cast<const char *>(&back), dtype))) << i;
      else
        ASSERT_EQ(back, bits) << value;
    }
}

TEST(Floats, RoundToTheNearestTiesToEven) {
  EXPECT_EQ(roundedBits(1, Dtype::F16), 0x3c00);
  EXPECT_EQ(roundedBits(1 + 0x1p-11, Dtype::F16), 0x3c00); // a tie between 1 and the next number
  EXPECT_EQ(roundedBits(1 + 3 * 0x1p-11, Dtype::F16), 0x3c02); // a tie between the next two numbers
  EXPECT_EQ(roundedBits(65519, Dtype::F16), 0x7bff);           // the largest finite number
  EXPECT_EQ(roundedBits(65520, Dtype::F16), 0x7c00);           // infinity
  EXPECT_EQ(roundedBits(-0x1p-24, Dtype::F16), 0x8001);        // the smallest magnitude
  EXPECT_EQ(roundedBits(0x1p-25, Dtype::F16), 0);              // half of the smallest magnitude
  EXPECT_EQ(roundedBits(0x1.fffp-15, Dtype::F16), 0x0400);     // the smallest normal number
  EXPECT_EQ(roundedBits(1 + 0x1p-8, Dtype::BF16), 0x3f80);
  EXPECT_EQ(roundedBits(1 + 3 * 0x1p-8, Dtype::BF16), 0x3f82);
  EXPECT_EQ(roundedBits(-INFINITY, Dtype::BF16), 0xff80);
  double values[] = {0.1, -2, INFINITY};
  float singles[3];
  convertFloats(reinterpret_cast<char *>(values), Dtype::F64, reinterpret_cast<char *>(singles),
                Dtype::F32, 3);
  EXPECT_EQ(singles[0], 0.1f);
  EXPECT_EQ(singles[1], -2);
  EXPECT_EQ(singles[2], INFINITY);
}

static Program tokenProgram(const std::string &labels) {
  std::string json = R"({"version": 1, "arena_bytes": 4096, "labels": ")" + labels +
                     R"(", "variables": [], "functions": [],
    "programs": [], "mesh": [{"name": "dp", "size": 2}], "inputs": [
    {"name": "x", "dtype": "i64", "shape": [2, 3], "factors": [[{"size": 2, "axes": ["dp"]}], [{"size": 3}]], "limit": 200,
     "role": "data", "addresses": [0]},
    {"name": "y", "dtype": "i64", "shape": [2, 3], "factors": [[{"size": 2, "axes": ["dp"]}], [{"size": 3}]], "limit": 200,
     "ignore": -100, "role": "labels", "addresses": [128]}]})";
  return parseProgram(json);
}

/// Parses a program with one function of one instruction, and returns the instruction.
static Instruction parseOne(const std::string &fields) {
  std::string json = R"({"version": 1, "arena_bytes": 4096, "variables": [], "programs": [],
    "mesh": [], "inputs": [], "functions": [{"name": "f", "bases": 3, "code": [{)" +
                     fields + R"(}]}]})";
  return parseProgram(json).functions[0].code[0];
}

static std::string matmulOf(const std::string &dtypes) {
  return R"("op": "matmul", "m": 2, "n": 3, "k": 4, "lhs": [0, 0], "rhs": [1, 0], "out": [2, 0],
    "lhs_strides": [0, 0, 4, 1], "rhs_strides": [0, 0, 3, 1], "out_strides": [0, 0, 3, 1], )" +
         dtypes;
}

TEST(Program, AResultOfNarrowFloatsMayBeWide) {
  auto op = std::get<MatmulOp>(parseOne(matmulOf(R"("dtype": "bf16", "out_dtype": "f32")")).op);
  EXPECT_EQ(op.dtype, Dtype::BF16);
  EXPECT_EQ(op.outDtype, Dtype::F32);
  op = std::get<MatmulOp>(parseOne(matmulOf(R"("dtype": "f16")")).op);
  EXPECT_EQ(op.outDtype, Dtype::F16);
  auto messageOf = [](const std::string &dtypes) {
    return errorOf([&] { parseOne(matmulOf(dtypes)); });
  };
  EXPECT_NE(messageOf(R"("dtype": "bf16", "out_dtype": "f16")").find("expected bf16 or f32"),
            std::string::npos);
  EXPECT_NE(messageOf(R"("dtype": "f32", "out_dtype": "bf16")").find("expected f32"),
            std::string::npos);
  EXPECT_NE(messageOf(R"("dtype": "bf16", "out_dtype": 7)"), "");
}

TEST(Program, AMatmulMayHaveAnActivation) {
  Instruction found =
      parseOne(matmulOf(R"("dtype": "bf16", "activation": "gelu", "aux": [2, 64])"));
  EXPECT_EQ(std::get<MatmulOp>(found.op).activation, MatmulOp::Activation::Gelu);
  EXPECT_TRUE(found.buffers[MatmulOp::Aux].present());
  found = parseOne(matmulOf(R"("dtype": "f32", "activation": "gelu")"));
  EXPECT_FALSE(found.buffers[MatmulOp::Aux].present());
  found = parseOne(matmulOf(R"("dtype": "f32", "activation": "gelu_grad", "aux": [2, 64])"));
  EXPECT_EQ(std::get<MatmulOp>(found.op).activation, MatmulOp::Activation::GeluGrad);
  auto expectError = [](const std::string &fields, const char *words) {
    std::string message = errorOf([&] { parseOne(matmulOf(R"("dtype": "f32", )" + fields)); });
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  expectError(R"("activation": "relu")", "expected gelu or gelu_grad");
  expectError(R"("activation": "gelu_grad")", "no \"aux\"");
  expectError(R"("aux": [2, 64])", "without an activation");
  expectError(R"("activation": "gelu", "accumulate": 0)", "a ref");
  expectError(R"("activation": "gelu", "batch": [1, 2])", "a batch");
  expectError(R"("activation": "gelu", "sums": [2, 64], "summed": "lhs")", "bias gradient");
  expectError(R"("activation": "gelu_grad", "aux": [2, 64], "bias": [2, 96])", "a bias");
}

TEST(Program, AMatmulMayHaveABiasGradient) {
  Instruction found = parseOne(matmulOf(R"("dtype": "f32", "sums": [2, 64], "summed": "rhs")"));
  EXPECT_TRUE(found.buffers[MatmulOp::BiasGrad].present());
  EXPECT_FALSE(found.buffers[MatmulOp::Bias].present());
  EXPECT_EQ(std::get<MatmulOp>(found.op).countBiasGrad(), 3);
  auto messageOf = [](const std::string &fields) {
    return errorOf([&] { parseOne(matmulOf(R"("dtype": "f32", "sums": [2, 64], )" + fields)); });
  };
  EXPECT_NE(messageOf(R"("summed": "out")").find("expected lhs or rhs"), std::string::npos);
  EXPECT_NE(messageOf(R"("batch": [1, 2], "summed": "lhs")").find("a batch"), std::string::npos);
  EXPECT_NE(messageOf(R"("bias": [2, 96], "summed": "lhs")").find("a bias"), std::string::npos);
  EXPECT_NE(messageOf(R"("accumulate": -1)"), "");
}

TEST(Program, AMatmulOf8BitsHasScales) {
  std::string scales = R"("lhs_scale": [2, 64], "rhs_scale": [2, 128], )";
  Instruction found = parseOne(
      matmulOf(scales + R"("dtype": "f8e4m3", "rhs_dtype": "f8e5m2", "out_dtype": "bf16")"));
  EXPECT_TRUE(found.buffers[MatmulOp::RhsScale].present());
  EXPECT_EQ(std::get<MatmulOp>(found.op).rhsDtype(), Dtype::F8E5M2);
  auto messageOf = [](const std::string &fields) {
    return errorOf([&] { parseOne(matmulOf(fields)); });
  };
  EXPECT_NE(messageOf(R"("dtype": "f8e4m3", "out_dtype": "bf16")").find("without two scales"),
            std::string::npos);
  EXPECT_NE(messageOf(scales + R"("dtype": "f32")").find("with scales"), std::string::npos);
  EXPECT_NE(messageOf(scales + R"("dtype": "f8e4m3", "out_dtype": "f64")").find("yields f64"),
            std::string::npos);
  EXPECT_NE(messageOf(scales + R"("dtype": "f8e4m3")"), "");
  EXPECT_NE(messageOf(R"("dtype": "f32", "rhs_dtype": "f16")").find("expected equal types"),
            std::string::npos);
  EXPECT_NE(messageOf(scales + R"("dtype": "f8e4m3", "rhs_dtype": "bf16", "out_dtype": "f32")"),
            "");
}

/// Returns a program of two equal functions. Each consists of the instructions `before`, the start
/// of an all_reduce with token 0, and the instructions `after`.
static Program parseStarts(const std::string &before, const std::string &after) {
  std::string function =
      R"({"name": "f", "bases": 1, "code": [)" + before +
      R"({"op": "all_reduce", "dtype": "f32", "axes": [], "count": 1, "in": [0, 0], "out": [0, 64],
      "queue": "tp.run", "wait": 0})" +
      after + "]}";
  return parseProgram(R"({"version": 1, "arena_bytes": 4096, "variables": [], "programs": [],
    "mesh": [], "inputs": [], "functions": [)" +
                      function + ", " + function + "]}");
}

TEST(Program, TokensAreLocalToAFunctionAndWaitedForInIt) {
  const std::string wait = R"({"wait": 0})";
  Program program = parseStarts("", ", " + wait);
  auto tokenOf = [&](int function) {
    return std::get<CollectiveOp>(program.functions[function].code[0].op).token;
  };
  EXPECT_NE(tokenOf(0), tokenOf(1));
  EXPECT_EQ(std::get<WaitOp>(program.functions[1].code[1].op).token, tokenOf(1));
  auto messageOf = [](const std::string &before, const std::string &after) {
    return errorOf([&] { parseStarts(before, after); });
  };
  EXPECT_NE(messageOf("", "").find("never waits for token 0"), std::string::npos);
  EXPECT_NE(messageOf(wait + ", ", "").find("waits for token 0, which was not started"),
            std::string::npos);
  std::string again =
      R"(, {"op": "all_reduce", "dtype": "f32", "axes": [], "count": 1, "in": [0, 0], "out": [0, 64],
      "queue": "tp.run", "wait": 0})";
  EXPECT_NE(messageOf("", ", " + wait + again).find("after the wait"), std::string::npos);
  EXPECT_NE(messageOf("", R"(, {"wait": -1})").find("waits for token -1, which was not started"),
            std::string::npos);
}

/// Returns an error message of the parser, or "". The program has 3 pipeline coordinates, a
/// function with the instructions `function`, and an entry "step" with the instructions `entry` on
/// coordinate 1.
static std::string parsePipeline(const std::string &function, const std::string &entry) {
  return errorOf([&] {
    parseProgram(R"({"version": 1, "arena_bytes": [4096, 4096, 4096], "variables": [],
      "mesh": [{"name": "pp", "kind": "pipeline", "size": 3}], "inputs": [],
      "functions": [{"name": "f", "bases": 1, "code": [)" +
                 function + R"(]}], "programs": [{"name": "step", "pp": 1, "code": [)" + entry +
                 "]}]}");
  });
}

TEST(Program, OnlyEntriesCommunicateBetweenPipelineCoordinates) {
  auto message = [](const std::string &op, int peer) {
    return R"({"op": ")" + op + R"(", "pp": )" + std::to_string(peer) +
           R"(, "bytes": 4, "wait": 0, "queue": "q", "value": 0, "micro_batch": 0, "in": 0,
              "out": 0}, {"wait": 0})";
  };
  auto reduce = [](const std::string &coordinates) {
    return R"({"op": "all_reduce", "dtype": "f32", "axes": [], "over_pp": )" + coordinates +
           R"(, "count": 1, "in": 0, "out": 64, "queue": "q", "wait": 0}, {"wait": 0})";
  };
  auto contains = [](const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_EQ(parsePipeline("", message("send", 2)), "");
  EXPECT_EQ(parsePipeline("", reduce("[0, 1]")), "");
  std::string found = parsePipeline(message("send", 2), "");
  EXPECT_TRUE(contains(found, R"(function "f" has a message to pipeline coordinate 2)")) << found;
  found = parsePipeline(message("recv", 0), "");
  EXPECT_TRUE(contains(found, R"(function "f" has a message from pipeline coordinate 0)")) << found;
  found = parsePipeline(reduce("[0, 1]"), "");
  EXPECT_TRUE(contains(found, R"(function "f" has an all_reduce over pipeline coordinates)"))
      << found;
  found = parsePipeline("", message("recv", 1));
  EXPECT_TRUE(contains(
      found, R"(entry "step" has a message from pipeline coordinate 1 to itself; compile)"))
      << found;
  found = parsePipeline("", reduce("[0, 2]"));
  EXPECT_TRUE(
      contains(found, R"(entry "step" has an all_reduce on pipeline coordinate 1 that runs)"))
      << found;
}

static std::vector<int64_t> readRow(const Program &program, const SampleSource &source, int input,
                                    int64_t sample) {
  std::vector<int64_t> row(3);
  Arena memory(3 * 8);
  InputWriter writer(program.inputs[input], program.mesh, {0});
  writer.write(source, memory, 0, [&](int64_t) { return sample; });
  memory.read(0, row.data(), 3 * 8);
  return row;
}

TEST(Tokens, LabelsAreTheNextTokenOrTheSame) {
  std::string path = temporary("t.bin");
  std::ofstream(path, std::ios::binary) << "\x01\x02\x03\x04\x05\x06\x07";
  for (std::string labels : {"next", "same"}) {
    Program program = tokenProgram(labels);
    auto source = openData(program, {{path}, TokenType::Uint8, std::nullopt, {}});
    EXPECT_EQ(source->samples(), 2);
    EXPECT_EQ(readRow(program, *source, 0, 1), (std::vector<int64_t>{4, 5, 6}));
    EXPECT_EQ(readRow(program, *source, 1, 1),
              labels == "next" ? (std::vector<int64_t>{5, 6, 7}) : (std::vector<int64_t>{4, 5, 6}));
    EXPECT_EQ(readRow(program, *source, 1, -1), (std::vector<int64_t>{-100, -100, -100}));
  }
  Program program = tokenProgram("next");
  EXPECT_NE(errorOf([&] {
              openData(program, {{path}, TokenType::Uint8, LabelRule::Same, {}});
            }).find("contradicts"),
            std::string::npos);
  EXPECT_NE(errorOf([&] {
              openData(program, {{path}, TokenType::Uint16, std::nullopt, {}});
            }).find("not a multiple"),
            std::string::npos);
}

TEST(Tokens, ATokenOutsideTheTableIsNamedWithItsOffset) {
  std::string path = temporary("u.bin");
  std::ofstream(path, std::ios::binary) << "\x01\x02\x03\x04\xfa\x06\x07";
  Program program = tokenProgram("next");
  auto source = openData(program, {{path}, TokenType::Uint8, std::nullopt, {}});
  std::string message = errorOf([&] { readRow(program, *source, 0, 1); });
  EXPECT_NE(message.find("byte offset 4"), std::string::npos) << message;
  EXPECT_NE(message.find("value 250"), std::string::npos) << message;
}

TEST(Order, LastStepIsPaddedIfRowsCanBeIgnored) {
  SampleOrder order{5, 2, 2, false, true, 0};
  EXPECT_EQ(order.stepsPerEpoch(), 2);
  EXPECT_EQ(order.sample(0, 1, 1), 3);
  EXPECT_EQ(order.sample(1, 0, 0), 4);
  EXPECT_EQ(order.sample(1, 0, 1), -1);
  EXPECT_EQ(order.sample(2, 0, 0), 0);
  order.canIgnore = false;
  EXPECT_EQ(order.stepsPerEpoch(), 1);
}
