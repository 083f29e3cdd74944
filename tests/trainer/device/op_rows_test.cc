#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/trainer/device/op_cases.h"
#include "tests/trainer/device/reference_ops.h"

namespace regatta::tests {
namespace {

struct Shape {
  std::int64_t rows, columns;
};
const Shape kShapes[] = {{1, 1}, {1, 8}, {7, 24}, {129, 64}, {129, 312}, {1000, 33}, {3000, 768}};

TEST_P(DeviceOps, ColumnSumsAreAdded) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(std::to_string(s.rows) + "x" + std::to_string(s.columns));
    Numbers numbers(1);
    const std::vector<float> x = numbers.floats(s.rows * s.columns);
    const std::vector<float> start = numbers.floats(s.columns);
    const trainer::View sum = at().floats(start);
    device().add_column_sums(0, at().floats(x), s.columns, sum);
    std::vector<double> exact = as<double>(start);
    std::vector<float> naive = start;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      for (std::int64_t c = 0; c < s.columns; ++c) {
        exact[reference::at(0, 0, c)] += static_cast<double>(x[reference::at(r, s.columns, c)]);
        naive[reference::at(0, 0, c)] += x[reference::at(r, s.columns, c)];
      }
    }
    expect_close(at().read(sum), exact, naive, "sum");
  }
}

TEST_P(DeviceOps, AddAddsElementByElement) {
  for (const std::int64_t size : {1, 15, 16, 17, 50000}) {
    Numbers numbers(2);
    const std::vector<float> x = numbers.floats(size);
    std::vector<float> y = numbers.floats(size);
    const trainer::View to = at().floats(y);
    device().add(0, at().floats(x), to);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += x[i];
    expect_same(at().read(to), y, "y");
  }
}

TEST_P(DeviceOps, RowsAreGatheredAndScattered) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(std::to_string(s.rows) + "x" + std::to_string(s.columns));
    Numbers numbers(3);
    const std::vector<float> many = numbers.floats(s.rows * s.columns);
    std::vector<std::int32_t> index(static_cast<std::size_t>(s.rows));
    std::iota(index.begin(), index.end(), 0);
    std::shuffle(index.begin(), index.end(), std::mt19937(9));
    index.resize(static_cast<std::size_t>((s.rows + 1) / 2));
    const auto count = static_cast<std::int64_t>(index.size());
    const trainer::View rows = at().ints(index);

    const trainer::View gathered = at().output(count * s.columns);
    device().gather_rows(0, at().floats(many), rows, s.columns, gathered);
    const std::vector<float> few = numbers.floats(count * s.columns);
    const trainer::View scattered = at().floats(many);
    device().scatter_add_rows(0, at().floats(few), rows, s.columns, scattered);

    std::vector<float> expected;
    std::vector<float> sums = many;
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t c = 0; c < s.columns; ++c) {
        const std::size_t place = reference::at(index[reference::at(0, 0, i)], s.columns, c);
        expected.push_back(many[place]);
        sums[place] += few[reference::at(i, s.columns, c)];
      }
    }
    expect_same(at().read(gathered), expected, "gathered");
    expect_same(at().read(scattered), sums, "scattered");
  }
}

TEST_P(DeviceOps, GatheringNothingIsAllowed) {
  const trainer::View to = at().floats({});
  device().gather_rows(0, at().floats({1, 2, 3, 4}), at().ints({}), 2, to);
  EXPECT_TRUE(at().read(to).empty());
}

TEST_P(DeviceOps, SumOfSquaresIsAsGoodAsFloat64) {
  for (const std::int64_t size : {1, 7, 129, 16384, 16385, 300001}) {
    const std::vector<float> x = Numbers(5).floats(size, 3);
    const trainer::View result = at().output(1);
    device().sum_of_squares(0, at().floats(x), result);
    double exact = 0;
    for (const float value : x) exact += static_cast<double>(value) * static_cast<double>(value);
    EXPECT_NEAR(static_cast<double>(at().read(result)[0]), exact, exact * 0x1p-23) << size;
  }
}

TEST_P(DeviceOps, SumOfSquaresShowsWhatIsNotANumber) {
  const trainer::View result = at().output(1);
  device().sum_of_squares(0, at().floats({1, std::nanf(""), 3}), result);
  EXPECT_TRUE(std::isnan(at().read(result)[0]));
  device().sum_of_squares(0, at().floats({1, std::numeric_limits<float>::infinity()}), result);
  EXPECT_TRUE(std::isinf(at().read(result)[0]));
}

TEST_P(DeviceOps, CopiesAndFillsMoveWholeViews) {
  const std::vector<float> values = Numbers(6).floats(100000);
  const trainer::View from = at().floats(values);
  const trainer::View to = at().output(100000);
  device().copy(0, to, from);
  expect_same(at().read(to), values, "copy");
  device().fill_zero(0, to.slice(10, 70000));
  std::vector<float> expected = values;
  std::fill(expected.begin() + 10, expected.begin() + 70010, 0.0F);
  expect_same(at().read(to), expected, "fill");
  device().copy(0, to.slice(0, 0), from.slice(5, 0));
  expect_same(at().read(to), expected, "empty copy");
}

// The order that a model's step uses: work on one stream, its copy out on another, the host last.
TEST_P(DeviceOps, EventsOrderStreamsAndTheHost) {
  const trainer::Stream copies = device().make_stream();
  const std::vector<float> values = Numbers(8).floats(5000);
  const trainer::View x = at().floats(values);
  const trainer::View y = at().floats(values);
  device().add(0, x, y);
  const trainer::Event added = device().record(0);
  device().wait(copies, added);
  std::vector<float> host(values.size());
  device().copy_to_host(copies, host.data(), y);
  const trainer::Event copied = device().record(copies);
  device().wait(0, copied);
  device().fill_zero(0, y);
  device().wait_host(copied);
  for (std::size_t i = 0; i < host.size(); ++i) ASSERT_EQ(host[i], 2 * values[i]);
  EXPECT_GT(copied, added);
  expect_same(at().read(y), std::vector<float>(values.size()), "cleared afterwards");
}

TEST_P(DeviceOps, MemoryIsAlignedAndItsPeakIsKept) {
  const std::int64_t before = device().peak_bytes();
  {
    const trainer::DeviceMemory a(device(), 1000, trainer::Dtype::Float32);
    trainer::DeviceMemory b(device(), 3, trainer::Dtype::Byte);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.view().data) % 256, 0U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.view().data) % 256, 0U);
    const trainer::DeviceMemory moved(std::move(b));
    EXPECT_EQ(moved.view().size, 3);
    EXPECT_EQ(b.view().data, nullptr);  // NOLINT: a moved-from memory is empty
  }
  device().synchronize();
  EXPECT_GE(device().peak_bytes(), before + 4003);
  const std::int64_t peak = device().peak_bytes();
  { const trainer::DeviceMemory small(device(), 1, trainer::Dtype::Float32); }
  EXPECT_EQ(device().peak_bytes(), peak);
}

}  // namespace
}  // namespace regatta::tests
