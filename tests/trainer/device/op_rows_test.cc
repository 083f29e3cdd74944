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
    const std::vector<float> x = at().rounded(numbers.floats(s.rows * s.columns));
    const std::vector<float> start = numbers.floats(s.columns);
    const trainer::device::View sum = at().floats(start);
    device().add_column_sums(0, at().activations(x), s.columns, sum);
    std::vector<double> exact = as<double>(start);
    std::vector<float> naive = start;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      for (std::int64_t c = 0; c < s.columns; ++c) {
        exact[reference::at(0, 0, c)] += static_cast<double>(x[reference::at(r, s.columns, c)]);
        naive[reference::at(0, 0, c)] += x[reference::at(r, s.columns, c)];
      }
    }
    expect_close(at(), sum, exact, naive, "sum");
  }
}

TEST_P(DeviceOps, AddAddsElementByElement) {
  for (const std::int64_t size : {1, 15, 16, 17, 50000}) {
    Numbers numbers(2);
    const std::vector<float> x = at().rounded(numbers.floats(size));
    std::vector<float> y = at().rounded(numbers.floats(size));
    const trainer::device::View to = at().activations(y);
    device().add(0, at().activations(x), to);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += x[i];
    expect_same(at().read(to), at().rounded(y), "y");
  }
}

TEST_P(DeviceOps, RowsAreGatheredAndScattered) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(std::to_string(s.rows) + "x" + std::to_string(s.columns));
    Numbers numbers(3);
    const std::vector<float> many = at().rounded(numbers.floats(s.rows * s.columns));
    std::vector<std::int32_t> index(static_cast<std::size_t>(s.rows));
    std::iota(index.begin(), index.end(), 0);
    std::shuffle(index.begin(), index.end(), std::mt19937(9));
    index.resize(static_cast<std::size_t>((s.rows + 1) / 2));
    for (std::size_t i = 1; i < index.size(); i += 3) index[i] = -1;  // padding
    const auto count = static_cast<std::int64_t>(index.size());
    const trainer::device::View rows = at().ints(index);

    const trainer::device::View gathered = at().activation_output(count * s.columns);
    device().gather_rows(0, at().activations(many), rows, s.columns, gathered);
    const std::vector<float> few = at().rounded(numbers.floats(count * s.columns));
    const trainer::device::View scattered = at().activations(many);
    device().scatter_add_rows(0, at().activations(few), rows, s.columns, scattered);

    std::vector<float> expected;
    std::vector<float> sums = many;
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t c = 0; c < s.columns; ++c) {
        const std::int32_t row = index[reference::at(0, 0, i)];
        if (row < 0) {
          expected.push_back(0);
          continue;
        }
        const std::size_t place = reference::at(row, s.columns, c);
        expected.push_back(many[place]);
        sums[place] += few[reference::at(i, s.columns, c)];
      }
    }
    expect_same(at().read(gathered), expected, "gathered");
    expect_same(at().read(scattered), at().rounded(sums), "scattered");
  }
}

TEST_P(DeviceOps, GatheringNothingIsAllowed) {
  const trainer::device::View to = at().activations({});
  device().gather_rows(0, at().activations({1, 2, 3, 4}), at().ints({}), 2, to);
  EXPECT_TRUE(at().read(to).empty());
}

TEST_P(DeviceOps, SumOfSquaresIsAsGoodAsFloat64) {
  for (const std::int64_t size : {1, 7, 129, 16384, 16385, 300001}) {
    const std::vector<float> x = Numbers(5).floats(size, 3);
    const trainer::device::View result = at().output(1);
    device().sum_of_squares(0, at().floats(x), result);
    double exact = 0;
    for (const float value : x) exact += static_cast<double>(value) * static_cast<double>(value);
    EXPECT_NEAR(static_cast<double>(at().read(result)[0]), exact, exact * 0x1p-23) << size;
  }
}

TEST_P(DeviceOps, SumOfSquaresShowsWhatIsNotANumber) {
  const trainer::device::View result = at().output(1);
  device().sum_of_squares(0, at().floats({1, std::nanf(""), 3}), result);
  EXPECT_TRUE(std::isnan(at().read(result)[0]));
  device().sum_of_squares(0, at().floats({1, std::numeric_limits<float>::infinity()}), result);
  EXPECT_TRUE(std::isinf(at().read(result)[0]));
}

}  // namespace
}  // namespace regatta::tests
