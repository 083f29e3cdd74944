// EMULATED: everything that can go wrong under the NCCL communicator, on an NCCL that the CPU
// plays; and the emulation's own rules, each broken once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>

#include "tests/trainer/nccl/nccl_ranks.h"
#include "tests/trainer/nccl/thread_hosts.h"

namespace regatta::tests {
namespace {

using base::Code;
using testing::Contains;
using testing::HasSubstr;
using trainer::nccl::Result;
using trainer::ranks::Pending;

constexpr double kNever = 1e7;  // milliseconds

std::vector<float> ones(std::size_t count) { return std::vector<float>(count, 1); }

double seconds_of(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(EmulatedNcclJoining, EndsInTimeWhenARankNeverComes) {
  NcclSetup setup;
  setup.ranks = 3;
  setup.options.init_seconds = 0.3;
  on_ranks(
      setup,
      [](NcclRank& rank) {
        if (rank.rank == 2) {  // comes for the id, and no further
          std::array<char, 132> id;
          rank.host.values->broadcast(id.data(), id.size(), 0);
          return;
        }
        const std::string message = thrown_message([&] { rank.make(); }, Code::Retry);
        EXPECT_THAT(message, HasSubstr("not through with joining the other ranks after 0.3 s"));
        EXPECT_EQ(rank.nccl.calls(rank.rank, "comm_abort"), 1);
      },
      false);
}

// What comes before NCCL's first communicator can still set what NCCL reads.
TEST(EmulatedNcclJoining, AsksFirst) {
  NcclSetup setup;
  setup.ranks = 3;
  std::atomic<int> asked = 0;
  setup.options.before_first = [&](trainer::ranks::HostCollectives& host, int nccl_version) {
    EXPECT_EQ(nccl_version, 22809);
    host.barrier();
    ++asked;
    throw base::Error(base::Code::Operator, "not today");
  };
  on_ranks(
      setup,
      [](NcclRank& rank) {
        EXPECT_EQ(thrown_message([&] { rank.make(); }, base::Code::Operator), "not today");
        EXPECT_EQ(rank.ranks, nullptr);
      },
      false);
  EXPECT_EQ(asked, 3);
}

TEST(EmulatedNcclJoining, MayTakeItsTime) {
  NcclSetup setup;
  setup.delays.init = 80;
  setup.options.ranks_per_node = 1;
  on_ranks(setup, [](NcclRank& rank) {
    LentMemory x(rank.nccl, rank.rank, ones(10));
    rank.finish(0, rank.ranks->all_reduce_sum(0, x.view()));
    EXPECT_EQ(x.values(), std::vector<float>(10, 2));
  });
}

TEST(EmulatedNcclJoining, FailsOnAllRanksWithoutAnId) {
  NcclSetup setup;
  setup.ranks = 3;
  on_ranks(
      setup,
      [](NcclRank& rank) {
        if (rank.rank == 0) rank.nccl.fail_next(0, "get_unique_id", Result::SystemError);
        EXPECT_THAT(thrown_message([&] { rank.make(); }, Code::Retry),
                    HasSubstr("NCCL failed at making an id for the ranks (emulated error"));
      },
      false);
}

TEST(EmulatedNcclJoining, ClosesWhatItOpenedWhenACallFails) {
  for (const char* call : {"comm_init_rank_config", "comm_get_async_error", "comm_split"}) {
    NcclSetup setup;
    setup.ranks = 1;
    setup.options.ranks_per_node = 1;
    on_ranks(
        setup,
        [&](NcclRank& rank) {
          rank.nccl.fail_next(0, call, Result::SystemError);
          thrown_message([&] { rank.make(); }, Code::Retry);
          EXPECT_GE(rank.nccl.calls(0, call), 1);
        },
        false);
  }
}

TEST(EmulatedNcclJoining, RefusesUnequalNodes) {
  for (const int per_node : {-1, 2, 4}) {
    NcclSetup setup;
    setup.ranks = 3;
    setup.options.ranks_per_node = per_node;
    on_ranks(
        setup,
        [](NcclRank& rank) {
          EXPECT_THAT(thrown_message([&] { rank.make(); }, Code::User), HasSubstr("3 ranks"));
        },
        false);
  }
}

TEST(EmulatedNcclErrors, HaveTheirCodes) {
  const struct {
    const char* call;
    std::size_t size;
    Result result;
    Code code;
    const char* words;
  } cases[] = {
      {"all_reduce", 5, Result::SystemError, Code::Retry, "an all-reduce"},
      {"all_reduce", 5, Result::InvalidUsage, Code::Operator, "NCCL_DEBUG=WARN"},
      {"all_reduce", 5, Result::InvalidArgument, Code::Developer, "defect"},
      {"all_reduce", 5, Result::RemoteError, Code::Retry, "a rank or the network was lost"},
      {"reduce_scatter", 64, Result::InternalError, Code::Retry, "a reduce-scatter"},
      {"reduce", 5, Result::UnhandledCudaError, Code::Retry, "a reduce-scatter"},
      {"group_start", 5, Result::InternalError, Code::Retry, "a reduce-scatter"},
      {"group_end", 5, Result::RemoteError, Code::Retry, "a reduce-scatter"},
      {"comm_get_async_error", 5, Result::InternalError, Code::Retry, "NCCL failed"},
      {"all_gather", 64, Result::InternalError, Code::Retry, "an all-gather"},
      {"broadcast", 5, Result::InternalError, Code::Retry, "an all-gather"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(std::string(c.call) + " " + c.words);
    NcclSetup setup;
    setup.ranks = 1;
    setup.options.poll_seconds = 100;  // not the watcher, but the call itself
    on_ranks(setup, [&](NcclRank& rank) {
      LentMemory x(rank.nccl, 0, ones(c.size));
      rank.nccl.fail_next(0, c.call, c.result);
      const auto calls = [&] {
        const std::string name = c.call;
        if (name == "all_reduce" || name == "comm_get_async_error") {
          static_cast<void>(rank.ranks->all_reduce_sum(0, x.view()));
        } else if (name == "all_gather" || name == "broadcast") {
          static_cast<void>(rank.ranks->all_gather(0, x.view()));
        } else {
          static_cast<void>(rank.ranks->reduce_scatter_sum(0, x.view()));
        }
      };
      const std::string message = thrown_message(calls, c.code);
      EXPECT_THAT(message, HasSubstr(c.words));
      EXPECT_THAT(message, HasSubstr("emulated error\\n"));
      // And so does everything after it.
      EXPECT_EQ(thrown_message([&] { rank.ranks->finish(0, 0); }, c.code), message);
      EXPECT_EQ(thrown_message([&] { rank.ranks->host().barrier(); }, c.code), message);
    });
  }
}

TEST(EmulatedNcclErrors, ACallThatIsNeverEnqueuedEndsInTime) {
  NcclSetup setup;
  setup.ranks = 1;
  setup.options.init_seconds = 2;
  setup.delays.launch = kNever;
  on_ranks(setup, [](NcclRank& rank) {
    LentMemory x(rank.nccl, 0, ones(5));
    EXPECT_THAT(thrown_message([&] { static_cast<void>(rank.ranks->all_reduce_sum(0, x.view())); },
                               Code::Retry),
                HasSubstr("an all-reduce after 2"));
  });
}

// The rank that sees the error moves on by itself; the others do when somebody, here in the place
// of the watchdog, has them give up.
TEST(EmulatedNcclErrors, OneRanksErrorEndsItAndTheOthersAreFreed) {
  NcclSetup setup;
  setup.ranks = 3;
  setup.options.poll_seconds = 0.01;
  on_ranks(setup, [](NcclRank& rank) {
    LentMemory x(rank.nccl, rank.rank, ones(100));
    rank.finish(0, rank.ranks->all_reduce_sum(0, x.view()));
    rank.ranks->host().barrier();
    if (rank.rank == 1) rank.nccl.break_links(1, Result::RemoteError);
    std::jthread watchdog;
    Pending pending = 0;
    const auto step = [&] {
      pending = rank.ranks->all_reduce_sum(0, x.view());
      if (rank.rank != 1) {
        watchdog = std::jthread([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          rank.ranks->abandon();
        });
      }
      rank.finish(0, pending);  // waits for the GPU until somebody aborts
      rank.ranks->host().barrier();
    };
    const std::string message = thrown_message(step, Code::Retry);
    EXPECT_THAT(message, HasSubstr(rank.rank == 1 ? "a rank or the network was lost" : "given up"));
    if (watchdog.joinable()) watchdog.join();
    EXPECT_EQ(rank.nccl.calls(rank.rank, "comm_finalize"), 0);
  });
}

// Without a call of the training thread: it waits for the GPU, and the watcher frees it.
TEST(EmulatedNcclErrors, TheWatcherFreesAStream) {
  NcclSetup setup;
  setup.options.poll_seconds = 0.01;
  on_ranks(setup, [](NcclRank& rank) {
    LentMemory x(rank.nccl, rank.rank, ones(100));
    rank.ranks->host().barrier();
    if (rank.rank == 1) {  // lost, and never calls
      rank.nccl.break_links(1);
      rank.ranks->abandon();
      return;
    }
    rank.ranks->finish(0, rank.ranks->all_reduce_sum(0, x.view()));
    rank.nccl.break_links(0, Result::RemoteError);
    rank.nccl.synchronize(0, 0);
    thrown_message([&] { rank.ranks->host().barrier(); }, Code::Retry);
    thrown_message([&] { static_cast<void>(rank.ranks->done_at(1)); }, Code::Retry);
    thrown_message([&] { static_cast<void>(rank.ranks->open_channel()); }, Code::Retry);
  });
}

TEST(EmulatedNcclHangs, AbandonReturnsAndTouchesNothingMore) {
  NcclSetup setup;
  setup.delays = {1, 3, 0, 0, 9};
  setup.options.farewell_seconds = 600;
  on_ranks(setup, [](NcclRank& rank) {
    LentMemory x(rank.nccl, rank.rank, ones(500));
    rank.ranks->host().barrier();
    rank.nccl.break_links(rank.rank);
    rank.ranks->host().barrier();
    const Pending first = rank.ranks->all_reduce_sum(0, x.view());
    const Pending second = rank.ranks->all_gather(0, x.view());
    rank.ranks->finish(0, first);
    rank.ranks->finish(0, second);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const double seconds = seconds_of([&] { rank.ranks->abandon(); });
    EXPECT_LT(seconds, 60);
    std::vector<float> mine(500, 7);
    std::copy(mine.begin(), mine.end(), x.view().floats());
    rank.nccl.synchronize(rank.rank, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(x.values(), mine);
    thrown_message([&] { rank.ranks->finish(0, second); }, Code::Retry);
    rank.ranks->abandon();  // again is nothing
    EXPECT_LT(seconds_of([&] { rank.ranks.reset(); }), 60);
  });
}

// In the middle of a call that NCCL does not get through with.
TEST(EmulatedNcclHangs, AbandonFreesACall) {
  NcclSetup setup;
  setup.ranks = 1;
  setup.delays.launch = kNever;
  on_ranks(setup, [](NcclRank& rank) {
    LentMemory x(rank.nccl, 0, ones(5));
    const std::jthread watchdog([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      rank.ranks->abandon();
    });
    EXPECT_THAT(thrown_message([&] { static_cast<void>(rank.ranks->all_reduce_sum(0, x.view())); },
                               Code::Retry),
                HasSubstr("given up"));
  });
}

TEST(EmulatedNcclHangs, SendsThatNobodyTakesAreGivenUp) {
  on_ranks({}, [](NcclRank& rank) {
    LentMemory x(rank.nccl, rank.rank, ones(50));
    rank.ranks->host().barrier();
    if (rank.rank == 0) {
      rank.ranks->finish(0, rank.ranks->send(0, x.view(), 1));
      rank.ranks->abandon();
      rank.nccl.synchronize(0, 0);
    } else {
      rank.ranks->abandon();
    }
  });
}

TEST(EmulatedNcclEnd, DoesNotWaitLongForRanksThatAreGone) {
  NcclSetup setup;
  setup.options.farewell_seconds = 0.2;
  on_ranks(setup, [](NcclRank& rank) {
    rank.ranks->host().barrier();
    if (rank.rank == 1) rank.ranks->abandon();
    EXPECT_LT(seconds_of([&] { rank.ranks.reset(); }), 60);
    EXPECT_GE(rank.nccl.calls(rank.rank, "comm_abort"), 1);
  });
}

TEST(EmulatedNcclEnd, WaitsForNobodyOnTheWayOutOfAnException) {
  NcclSetup setup;
  setup.options.farewell_seconds = 600;
  on_ranks(setup, [](NcclRank& rank) {
    rank.ranks->host().barrier();
    const auto leave = [&] {
      const auto ranks = std::move(rank.ranks);
      throw std::runtime_error("something else");
    };
    EXPECT_LT(seconds_of([&] { EXPECT_THROW(leave(), std::runtime_error); }), 60);
    EXPECT_EQ(rank.nccl.calls(rank.rank, "comm_finalize"), 0);
  });
}

// The emulation's rules: what on_ranks finds none of.
class EmulatedNcclRules : public testing::Test {
 protected:
  using Body = std::function<void(trainer::ranks::Communicator&, int rank)>;
  void run(const Body& body) {
    auto hosts = make_thread_hosts(2);
    std::vector<std::jthread> threads;
    for (int r = 0; r < 2; ++r) {
      threads.emplace_back([&, r] {
        std::unique_ptr<trainer::ranks::Communicator> ranks;
        try {
          ranks = trainer::nccl::make_nccl_communicator(
              nccl_.table(r), {std::move(hosts[static_cast<std::size_t>(r)]), nullptr}, {});
          body(*ranks, r);
        } catch (const base::Error&) {  // a violation ends everything
        }
        if (ranks != nullptr) ranks->abandon();
      });
    }
  }
  EmulatedNccl nccl_{2};
};

TEST_F(EmulatedNcclRules, CountsAreEqual) {
  run([&](trainer::ranks::Communicator& ranks, int rank) {
    LentMemory x(nccl_, rank, ones(10 + static_cast<std::size_t>(rank)));
    static_cast<void>(ranks.all_reduce_sum(0, x.view()));
    nccl_.synchronize(rank, 0);
    while (nccl_.violations().empty()) std::this_thread::yield();
  });
  EXPECT_THAT(nccl_.violations(), Contains(HasSubstr("with different counts")));
}

TEST_F(EmulatedNcclRules, CallsAreInOneOrder) {
  run([&](trainer::ranks::Communicator& ranks, int rank) {
    LentMemory x(nccl_, rank, ones(10));
    if (rank == 0) static_cast<void>(ranks.broadcast(0, x.view(), 0));
    static_cast<void>(ranks.all_reduce_sum(0, x.view()));
    while (nccl_.violations().empty()) std::this_thread::yield();
  });
  EXPECT_THAT(nccl_.violations(), Contains(HasSubstr("call different things")));
}

TEST_F(EmulatedNcclRules, MemoryIsLent) {
  run([&](trainer::ranks::Communicator& ranks, int rank) {
    LentMemory x(nccl_, rank, ones(10));
    trainer::device::View beyond = x.view();
    ++beyond.size;
    static_cast<void>(ranks.all_reduce_sum(0, beyond));
  });
  EXPECT_THAT(nccl_.violations(), Contains(HasSubstr("writes outside")));
}

// Why the communicator waits while a call is in progress.
TEST(EmulatedNcclTable, LaunchesReachTheirStreamLate) {
  EmulatedNccl nccl(1);
  trainer::nccl::Table table = nccl.table(0);
  table.enter();
  trainer::nccl::UniqueId id = {};
  ASSERT_EQ(table.get_unique_id(&id), Result::Success);
  trainer::nccl::Comm comm = nullptr;
  EXPECT_EQ(table.comm_init_rank_config(&comm, 1, id, 0), Result::InProgress);
  Result state = Result::InProgress;
  ASSERT_EQ(table.comm_get_async_error(comm, &state), Result::Success);
  ASSERT_EQ(state, Result::Success);
  LentMemory x(nccl, 0, ones(4));
  const trainer::nccl::NativeStream stream = table.native_stream(0);
  EXPECT_EQ(table.all_reduce(x.view().floats(), 4, comm, stream), Result::InProgress);
  const trainer::nccl::NativeEvent hasty = table.event_create();
  table.event_record(hasty, stream);
  nccl.synchronize(0, 0);
  EXPECT_TRUE(table.event_is_done(hasty)) << "recorded before the launch came to the stream";
  // A second call before that is against the rules.
  EXPECT_NE(table.all_reduce(x.view().floats(), 4, comm, stream), Result::InProgress);
  EXPECT_THAT(nccl.violations(), Contains(HasSubstr("in progress is called")));
  table.event_destroy(hasty);
  EXPECT_EQ(table.comm_abort(comm), Result::Success);
  EXPECT_EQ(nccl.open_handles(0), 0);
}

}  // namespace
}  // namespace regatta::tests
