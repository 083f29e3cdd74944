// trainer/cuda/kernels/wgmma.cuh on the CPU: the same names, operands found by decoding the
// descriptors as the PTX ISA says, each warp computing its 16 rows of D.
//
// Products are as late as they may be: sums hold NaN from a product's issue until the wait for its
// group, and only then are A's registers and shared memory read. What shared memory held at the
// issue is kept too, and must be the same. So what is read too early, overwritten too early or not
// there yet shows. Besides it is an error
//   * to touch a sum in flight,
//   * to issue a product without a fence since the warp's last wait (stricter than the GPU, which
//     asks for it where registers were touched),
//   * when the four warps of a warpgroup do not issue the same products,
//   * to read what was written to shared memory and not shared with the async proxy
//     (proxy_check.h),
//   * to end a block with products in flight.
// Registers named here by address live until the wait. Each product of 16 is summed in float64 and
// rounded once.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/trainer/cuda/emulation/block.h"
#include "tests/trainer/cuda/emulation/proxy_check.h"
#include "trainer/cuda/kernels/ptx.cuh"

namespace regatta::trainer::cuda::wgmma {

namespace detail {

// Where dynamic shared memory begins on a GPU: the system takes some before it.
constexpr std::uint32_t kWindowBase = 1024;
constexpr int kSums = 32;  // of a lane

// What a lane brings to a product.
struct Operands {
  float* d;
  const std::uint32_t* a_registers;  // nullptr: A is in shared memory
  Descriptor a, b;
  bool adds;
};
struct Form {
  Major a = Major::K, b = Major::K;
  bool from_registers = false;
  double (*element)(std::uint32_t word, int half) = nullptr;
  friend bool operator==(const Form&, const Form&) = default;
};
struct Product {
  Form form;
  std::array<Operands, 32> lanes{};
  std::vector<std::uint16_t> memory;  // as it was at the issue: B by k, then A by row
  emulation::Place place;
};
// The sums of a warp that are in flight: lane by lane what they will be.
struct Flight {
  std::array<float*, 32> at{};
  std::vector<float> values;
  int products = 0;
};
struct Warp {
  std::uint64_t block = 0;
  std::vector<std::vector<Product>> groups;
  std::vector<Product> open;
  std::vector<Flight> flights;
  bool fenced = false;
  std::size_t issued = 0;
};
struct Issue {
  Form form;
  Descriptor a, b;
  bool adds;
  friend bool operator==(const Issue&, const Issue&) = default;
};
// Of a warpgroup: what its first warp to come has issued.
struct Group {
  std::uint64_t block = 0;
  std::vector<Issue> issues;
};

inline int warp_number() { return emulation::thread_rank() / 32; }
inline Warp& warp_state() {
  static std::array<Warp, 32> warps;
  Warp& warp = warps[static_cast<std::size_t>(warp_number())];
  if (warp.block != emulation::block_serial()) {
    if (!warp.groups.empty() || !warp.open.empty()) {
      emulation::fail("a warp of an earlier block did not wait for its wgmma");
    }
    warp = Warp{};
    warp.block = emulation::block_serial();
  }
  return warp;
}
inline Group& group_state() {
  static std::array<Group, 8> groups;
  Group& group = groups[static_cast<std::size_t>(warp_number() / 4)];
  if (group.block != emulation::block_serial()) group = {emulation::block_serial(), {}};
  return group;
}

// The element of row `outer` of A (column of B) and of `k`, as the descriptor says.
inline const unsigned char* element_of(Descriptor descriptor, Major major, int outer, int k,
                                       const emulation::Place& place) {
  const auto field = [&](int first, int bits) {
    return static_cast<std::uint32_t>(descriptor >> first & ((Descriptor{1} << bits) - 1));
  };
  const std::uint32_t leading = 16 * field(16, 14);
  const std::uint32_t stride = 16 * field(32, 14);
  if (field(62, 2) != 1 || field(49, 3) != 0 || field(14, 2) != 0 || field(30, 2) != 0 ||
      field(46, 3) != 0 || field(52, 10) != 0) {
    emulation::fail("%s:%d: not a descriptor of a tile with 128-byte swizzle and base offset 0",
                    place.file, place.line);
  }
  const auto row = static_cast<std::uint32_t>(major == Major::K ? outer : k);
  const auto column = static_cast<std::uint32_t>(major == Major::K ? k : outer);
  std::uint32_t address = 16 * field(0, 14) + row / 8 * stride + row % 8 * 128;
  address += column / 64 * leading + column % 64 * 2;
  address ^= (address >> 7 & 7U) << 4;
  return emulation::dynamic_shared() + (address - kWindowBase);
}
// All that the running warp reads of shared memory, two bytes at a time.
inline std::vector<std::uint16_t> operands_of(const Product& product) {
  std::vector<std::uint16_t> memory;
  memory.reserve(2048);
  const auto read = [&](Descriptor descriptor, Major major, int outer, int k) {
    const unsigned char* from = element_of(descriptor, major, outer, k, product.place);
    emulation::touch_read(from, 2);
    if (!emulation::proxy_check().is_shared(from)) {
      emulation::fail("%s:%d: wgmma reads what its writer did not share (fence.proxy.async)",
                      product.place.file, product.place.line);
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof(bits));
    memory.push_back(bits);
  };
  for (int k = 0; k < kDepth; ++k) {
    for (int column = 0; column < kSide; ++column) {
      read(product.lanes[0].b, product.form.b, column, k);
    }
  }
  if (product.form.from_registers) return memory;
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < kDepth; ++k) {
      read(product.lanes[0].a, product.form.a, warp_number() % 4 * 16 + row, k);
    }
  }
  return memory;
}

inline bool is_poison(const float* d) {
  std::array<unsigned char, kSums * sizeof(float)> poison{};
  poison.fill(0xFF);
  return std::memcmp(d, poison.data(), poison.size()) == 0;
}
// Runs f once for the running warp, when all its lanes have come.
template <typename F>
void together(F, const char* what, const char* file, int line) {
  (void)emulation::warp_collective<int, int>(
      0,
      [](const int(&)[32], int(&out)[32]) {
        for (int& result : out) result = 0;
        F{}();
      },
      what, file, line);
}
// The sums of this product, which must not have been touched if they are in flight already.
inline Flight& flight_of(Warp& warp, const Product& product) {
  for (Flight& flight : warp.flights) {
    if (flight.at[0] != product.lanes[0].d) continue;
    for (std::size_t lane = 0; lane < 32; ++lane) {
      if (flight.at[lane] != product.lanes[lane].d || !is_poison(flight.at[lane])) {
        emulation::fail("%s:%d: a sum of lane %d was touched while wgmma worked on it",
                        product.place.file, product.place.line, static_cast<int>(lane));
      }
    }
    return flight;
  }
  Flight flight;
  for (std::size_t lane = 0; lane < 32; ++lane) {
    float* d = product.lanes[lane].d;
    flight.at[lane] = d;
    flight.values.insert(flight.values.end(), d, d + kSums);
    std::memset(d, 0xFF, kSums * sizeof(float));
  }
  warp.flights.push_back(std::move(flight));
  return warp.flights.back();
}

inline void issue(Product product) {
  Warp& warp = warp_state();
  const emulation::Place place = product.place;
  if (!warp.fenced) {
    emulation::fail("%s:%d: no wgmma.fence since the last wait", place.file, place.line);
  }
  const Operands& first = product.lanes[0];
  for (const Operands& lane : product.lanes) {
    if (lane.a != first.a || lane.b != first.b || lane.adds != first.adds) {
      emulation::fail("%s:%d: lanes with different wgmma", place.file, place.line);
    }
  }
  const Issue mine{product.form, first.a, first.b, first.adds};
  Group& group = group_state();
  if (warp.issued == group.issues.size()) group.issues.push_back(mine);
  if (!(group.issues[warp.issued++] == mine)) {
    emulation::fail("%s:%d: warps of a warpgroup with different wgmma", place.file, place.line);
  }
  ++flight_of(warp, product).products;
  product.memory = operands_of(product);
  warp.open.push_back(std::move(product));
}

// The running warp's rows of d (+)= a·b.
inline void compute(Warp& warp, const Product& product) {
  if (operands_of(product) != product.memory) {
    emulation::fail("%s:%d: an operand of wgmma changed between issue and wait, or came too late",
                    product.place.file, product.place.line);
  }
  std::array<std::array<double, kSide>, kDepth> b{};
  std::array<std::array<double, kDepth>, 16> a{};
  std::size_t next = 0;
  for (auto& row : b) {
    for (double& x : row) x = product.form.element(product.memory[next++], 0);
  }
  if (!product.form.from_registers) {
    for (auto& row : a) {
      for (double& x : row) x = product.form.element(product.memory[next++], 0);
    }
  } else {
    for (std::size_t lane = 0; lane < 32; ++lane) {
      for (std::size_t i = 0; i < 4; ++i) {
        for (std::size_t half = 0; half < 2; ++half) {
          a[lane / 4 + i % 2 * 8][lane % 4 * 2 + half + i / 2 * 8] =
              product.form.element(product.lanes[lane].a_registers[i], static_cast<int>(half));
        }
      }
    }
  }
  Flight& flight = flight_of(warp, product);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t i = 0; i < kSums; ++i) {
      const std::size_t row = lane / 4 + i % 4 / 2 * 8;
      const std::size_t column = 8 * (i / 4) + lane % 4 * 2 + i % 2;
      float& value = flight.values[lane * kSums + i];
      double sum = product.lanes[0].adds ? static_cast<double>(value) : 0;
      for (std::size_t k = 0; k < kDepth; ++k) sum += a[row][k] * b[k][column];
      value = static_cast<float>(sum);
    }
  }
  if (--flight.products > 0) return;
  for (std::size_t lane = 0; lane < 32; ++lane) {
    std::memcpy(flight.at[lane], &flight.values[lane * kSums], kSums * sizeof(float));
  }
  warp.flights.erase(warp.flights.begin() + (&flight - warp.flights.data()));
}

template <typename T>
void multiply(const Form& form, const Operands& mine, const char* file, int line) {
  struct In {
    Operands operands;
    Form form;
    emulation::Place place;
  };
  (void)emulation::warp_collective<In, int>(
      {mine, form, {file, line}},
      [](const In(&in)[32], int(&out)[32]) {
        for (int& result : out) result = 0;
        Product product;
        product.form = in[0].form;
        product.place = in[0].place;
        for (std::size_t lane = 0; lane < 32; ++lane) product.lanes[lane] = in[lane].operands;
        issue(std::move(product));
      },
      "wgmma", file, line);
}

}  // namespace detail

#define REGATTA_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline std::uint32_t address_bits(ptx::SharedAddress address) {
  const std::ptrdiff_t offset = address - emulation::dynamic_shared();
  if (offset < 0 || offset >= 0x40000 || offset % 16 != 0) {
    emulation::fail("a descriptor's address is not a piece of dynamic shared memory");
  }
  return static_cast<std::uint32_t>(offset) + detail::kWindowBase;
}

inline void share_writes() { emulation::proxy_check().fence(); }

inline void commit(REGATTA_HERE) {
  detail::together(
      [] {
        detail::Warp& warp = detail::warp_state();
        warp.groups.push_back(std::exchange(warp.open, {}));
      },
      "wgmma.commit_group", file, line);
}

// No default arguments behind a pack: these two do not know their caller's place.
template <typename... Registers>
void fence(Registers&...) {
  detail::together([] { detail::warp_state().fenced = true; }, "wgmma.fence", __FILE__, __LINE__);
}
template <int kOpenGroups, typename... Registers>
void wait(Registers&... whole) {
  detail::together(
      [] {
        detail::Warp& warp = detail::warp_state();
        warp.fenced = false;
        while (warp.groups.size() > kOpenGroups) {
          for (const detail::Product& product : warp.groups.front()) {
            detail::compute(warp, product);
          }
          warp.groups.erase(warp.groups.begin());
        }
      },
      "wgmma.wait_group", __FILE__, __LINE__);
  for (const detail::Flight& flight : detail::warp_state().flights) {
    for (const void* mine :
         {static_cast<const void*>(&whole)..., static_cast<const void*>(nullptr)}) {
      if (std::find(flight.at.begin(), flight.at.end(), mine) != flight.at.end()) {
        emulation::fail("a sum that a wait names as whole is still in flight");
      }
    }
  }
}

template <typename T, Major kA, Major kB>
void multiply(float (&d)[8][4], Descriptor a, Descriptor b, bool adds, REGATTA_HERE) {
  detail::multiply<T>({kA, kB, false, &ptx::detail::element<T>}, {&d[0][0], nullptr, a, b, adds},
                      file, line);
}
template <typename T, Major kB>
void multiply(float (&d)[8][4], const std::uint32_t (&a)[4], Descriptor b, bool adds,
              REGATTA_HERE) {
  detail::multiply<T>({Major::K, kB, true, &ptx::detail::element<T>}, {&d[0][0], &a[0], 0, b, adds},
                      file, line);
}

inline void store_matrix(ptx::SharedAddress row, const std::uint32_t (&r)[4], REGATTA_HERE) {
  ptx::detail::check_alignment(row, "a row of stmatrix", file, line);
  struct In {
    ptx::SharedAddress row;
    std::uint32_t word[4];
  };
  (void)emulation::warp_collective<In, int>(
      {row, {r[0], r[1], r[2], r[3]}},
      [](const In(&in)[32], int(&out)[32]) {
        for (int lane = 0; lane < 32; ++lane) {
          out[lane] = 0;
          for (int i = 0; i < 4; ++i) {
            unsigned char* to = in[8 * i + lane / 4].row + lane % 4 * 4;
            emulation::touch_write(to, 4);
            std::memcpy(to, &in[lane].word[i], 4);
          }
        }
      },
      "stmatrix", file, line);
  emulation::proxy_check().wrote(row);
}
#undef REGATTA_HERE

}  // namespace regatta::trainer::cuda::wgmma
