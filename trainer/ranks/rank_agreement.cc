#include "trainer/ranks/rank_agreement.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace regatta::trainer::ranks {
namespace {

constexpr std::size_t kMaxText = 1000;

struct Outcome {
  int failed = 0;
  int code = 0;  // base::Code
  std::array<char, kMaxText + 1> message{};

  void fail(base::Code why, const std::string& text) {
    failed = 1;
    code = static_cast<int>(why);
    std::memcpy(message.data(), text.data(), std::min(text.size(), kMaxText));
  }
};

template <typename Value>
std::vector<Value> of_all(HostCollectives& host, const Value& mine) {
  std::vector<Value> all(static_cast<std::size_t>(host.ranks()));
  host.all_gather(&mine, sizeof mine, all.data());
  return all;
}

}  // namespace

void run_on_all_ranks(HostCollectives& host, const std::function<void()>& body) {
  Outcome mine;
  try {
    body();
  } catch (const base::Error& error) {
    mine.fail(error.code(), error.what());
  } catch (const std::exception& error) {
    mine.fail(base::Code::Developer, error.what());
  }
  const std::vector<Outcome> all = of_all(host, mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].failed == 0) continue;
    const std::string where = rank == 0 ? "" : "rank " + std::to_string(rank) + ": ";
    throw AgreedError(static_cast<base::Code>(all[rank].code), where + all[rank].message.data());
  }
}

void same_everywhere(HostCollectives& host, const std::string& what, const std::string& value) {
  std::array<char, kMaxText + 1> mine{};
  std::memcpy(mine.data(), value.data(), std::min(value.size(), kMaxText));
  const auto all = of_all(host, mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw AgreedError(base::Code::Operator, what + " differs: rank 0 has " + all[0].data() +
                                                ", rank " + std::to_string(rank) + " has " +
                                                all[rank].data() + "; make all nodes alike");
  }
}

std::vector<std::string> texts_of_ranks(HostCollectives& host, const std::string& text) {
  std::array<char, 256> mine{};
  std::memcpy(mine.data(), text.data(), std::min(text.size(), mine.size() - 1));
  std::vector<std::string> texts;
  for (const auto& one : of_all(host, mine)) texts.emplace_back(one.data());
  return texts;
}

std::string text_of_rank_0(HostCollectives& host, const std::string& text) {
  auto size = static_cast<std::int64_t>(text.size());
  host.broadcast(&size, sizeof size, 0);
  std::string copy = text;
  copy.resize(static_cast<std::size_t>(size));
  host.broadcast(copy.data(), size, 0);
  return copy;
}

}  // namespace regatta::trainer::ranks
