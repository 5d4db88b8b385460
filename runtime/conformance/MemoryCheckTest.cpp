// Tests --check-memory on the hand-written program, with a correct memory plan and with wrong ones.
#include "runtime/conformance/DeviceFixture.h"
#include "runtime/conformance/TinyProgram.h"
#include "runtime/session/Session.h"
#include <gtest/gtest.h>

using namespace psrt;

namespace {

const char stepBuffers[] = "[[1024, 128, -1, 0], [1280, 128, -1, 1], [1536, 32, -1, 0],"
                           " [1792, 32, -1, 1], [384, 16, 2, 4], [448, 4, 2, 4], [512, 4, 2, 4]]";
const char evaluateBuffers[] = "[[2048, 128, -1, 0], [2304, 32, -1, 0], [2560, 4, 0, 1],"
                               " [2624, 4, 0, 1], [2688, 32, 0, 1]]";

/// Returns the program's table with a memory plan. In the plan, `from` is replaced by `to`.
std::string makeTable(const std::string &from = "", const std::string &to = "") {
  std::string table = PSRT_TINY_TABLE("1", "8"), step = stepBuffers, evaluate = evaluateBuffers;
  for (std::string *text : {&step, &evaluate})
    if (size_t at = from.empty() ? std::string::npos : text->find(from); at != std::string::npos)
      text->replace(at, from.size(), to);
  auto insert = [&](const char *entry, const std::string &buffers) {
    size_t programs = table.find("\"programs\"");
    table.insert(table.find(std::string("\"name\": \"") + entry + "\"", programs),
                 "\"buffers\": " + buffers + ", ");
  };
  insert("evaluate", evaluate);
  insert("step", step);
  return table;
}

struct Measures {
  int64_t planned = 0, measured = 0;
};

Measures runChecked(const std::string &table, const std::string &name) {
  SessionOptions options;
  options.checkMemory = true;
  Session session({table.data(), table.size(), psrt_program_kernels, "."}, options);
  const EntryPoint &entry = session.entry(name);
  std::vector<float> x = randomValues(16 * tinyWidth, 1), y = randomValues(16, 2);
  auto source =
      makeMemorySource(session.inputsOf(entry),
                       {{"x", Dtype::F32, {16, tinyWidth}, reinterpret_cast<char *>(x.data())},
                        {"y", Dtype::F32, {16}, reinterpret_cast<char *>(y.data())}},
                       "the test");
  for (int run = 0; run < 2; ++run) {
    session.writeInputs(entry, *source, name == "step" ? 2 : 1,
                        [](int64_t m, int64_t row) { return m * 8 + row; });
    session.run(entry);
  }
  const MemoryCheck &check = *session.rank(0)->executor->memoryCheck();
  return {check.getPlanned(), check.getMeasured()};
}

std::string findFault(const std::string &table, const std::string &entry = "step") {
  try {
    runChecked(table, entry);
  } catch (const Error &error) {
    return error.status.message;
  }
  return "no fault";
}

} // namespace

TEST(MemoryCheck, MeasuresThePlannedBytesExactly) {
  Measures step = runChecked(makeTable(), "step"), evaluate = runChecked(makeTable(), "evaluate");
  EXPECT_EQ(step.planned, 1792 + 32);
  EXPECT_EQ(step.measured, step.planned);
  EXPECT_EQ(evaluate.planned, 2688 + 32);
  EXPECT_EQ(evaluate.measured, evaluate.planned);
}

TEST(MemoryCheck, NoticesBytesThatAreNeverWritten) {
  Measures found = runChecked(makeTable("[1792, 32, -1, 1]", "[1792, 40, -1, 1]"), "step");
  EXPECT_EQ(found.planned, 1792 + 40);
  EXPECT_EQ(found.measured, 1792 + 32);
}

TEST(MemoryCheck, FindsAReadOfADeadBuffer) {
  EXPECT_EQ(findFault(makeTable("[1280, 128, -1, 1]", "[1280, 128, -1, 0]")),
            "forward of m.forward uses arena address 1280: there is no buffer at this time; the "
            "program violates its memory plan; keep the program and report this bug");
  EXPECT_NE(findFault(makeTable("[384, 16, 2, 4]", "[384, 16, 2, 3]"))
                .find("update of m.update uses arena address 384"),
            std::string::npos);
}

TEST(MemoryCheck, FindsAWriteOutsideOfItsBuffer) {
  EXPECT_NE(
      findFault(makeTable("[2688, 32, 0, 1]", "[2688, 16, 0, 1]"), "evaluate")
          .find(
              "evaluate of m.evaluate changed arena address 2704: there is no buffer at this time"),
      std::string::npos);
}

TEST(MemoryCheck, FindsAnInvalidPlan) {
  EXPECT_EQ(
      findFault(makeTable("[384, 16, 2, 4]", "[1300, 16, 1, 4]")),
      "m.forward: the memory plan has a buffer at bytes 1300 to 1316, which overlaps the buffer in "
      "use at bytes 1280 to 1408");
  EXPECT_NE(findFault(makeTable("[384, 16, 2, 4]", "[4090, 16, 2, 4]")).find("the arena has 4096"),
            std::string::npos);
  EXPECT_NE(findFault(PSRT_TINY_TABLE("1", "8")).find("compile it again"), std::string::npos);
}
