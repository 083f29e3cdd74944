#include "trainer/mpi/mpi_communicator.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace regatta::trainer {
namespace {

// Between two looks at what is under way: long enough to leave the core to whoever computes on it
// (facts: cpu-cuda.md section 5), short beside the milliseconds that a bucket takes.
constexpr auto kPollPause = std::chrono::microseconds(50);
// MPI counts elements in int.
constexpr std::int64_t kMostElements = std::int64_t{1} << 30;

void check(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw base::Error(base::Code::Retry, std::string("MPI failed at ") + what + " (" +
                                           std::string(text, static_cast<std::size_t>(length)) +
                                           "); a rank or the network was lost");
}

// MPI itself: the process's, from MPI_Init to MPI_Finalize.
class Library {
 public:
  Library() {
    int provided = MPI_THREAD_SINGLE;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS) {
      throw base::Error(base::Code::Operator,
                        "MPI does not start; check the Open MPI installation");
    }
    if (provided < MPI_THREAD_SERIALIZED) {
      throw base::Error(base::Code::Operator,
                        "this MPI may be called by one thread only; use one built with threads");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (!lost_) MPI_Finalize();
  }
  // After a failure the other ranks are somewhere else, or gone: waiting for them, as the end of
  // collectives and of MPI does, could last for ever. MPI is left alone, and the launcher ends the
  // other ranks when this process goes.
  void lose() { lost_ = true; }
  [[nodiscard]] bool is_lost() const { return lost_; }

 private:
  std::atomic<bool> lost_ = false;
};

// A communicator of its own for each kind of call: calls of one kind then come in the same order on
// every rank, whatever other kinds do in between.
class OwnComm {
 public:
  explicit OwnComm(const Library& library) : library_(library) {
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "making a communicator");
  }
  OwnComm(const OwnComm&) = delete;
  OwnComm& operator=(const OwnComm&) = delete;
  ~OwnComm() {
    if (!library_.is_lost()) MPI_Comm_free(&comm_);
  }
  [[nodiscard]] MPI_Comm get() const { return comm_; }

 private:
  const Library& library_;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

enum class Kind { AllReduce, ReduceScatter, AllGather, Broadcast };

struct Job {
  Kind kind = Kind::AllReduce;
  float* data = nullptr;
  std::int64_t size = 0;
  int root = 0;
  Pending number = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  bool exchanged = false;         // the first of its two halves is over
  std::vector<float> received{};  // this rank's part, of every rank
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator() {
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "finding the rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &ranks_), "counting the ranks");
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }
  ~MpiCommunicator() override {
    if (std::uncaught_exceptions() > 0) library_.lose();
    stop();
  }
  void abandon() noexcept override {
    library_.lose();
    stop();
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return ranks_; }

  [[nodiscard]] Pending all_reduce_sum(Stream, View x) override {
    return begin(Kind::AllReduce, x, 0);
  }
  [[nodiscard]] Pending reduce_scatter_sum(Stream, View x) override {
    return begin(Kind::ReduceScatter, x, 0);
  }
  [[nodiscard]] Pending all_gather(Stream, View x) override { return begin(Kind::AllGather, x, 0); }
  [[nodiscard]] Pending broadcast(Stream, View x, int root) override {
    return begin(Kind::Broadcast, x, root);
  }
  void finish(Stream, Pending pending) override {
    std::unique_lock lock(mutex_);
    done_changed_.wait(lock, [&] { return done_ >= pending || failure_ != nullptr; });
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

  void all_reduce_sum_host(double* values, int count) override {
    // Gathered and added here in rank order, so that every rank has the same bits.
    std::vector<double> all(static_cast<std::size_t>(count) * static_cast<std::size_t>(ranks_));
    call([&] {
      check(MPI_Allgather(values, count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, host_.get()),
            "a sum of statistics");
    });
    std::fill(values, values + count, 0.0);
    for (std::size_t i = 0; i < all.size(); ++i)
      values[i % static_cast<std::size_t>(count)] += all[i];
  }
  void broadcast_host(void* bytes, std::int64_t count, int root) override {
    base::check(count >= 0 && count <= kMostElements, "a broadcast fits MPI's counts");
    call([&] {
      check(MPI_Bcast(bytes, static_cast<int>(count), MPI_BYTE, root, host_.get()), "a broadcast");
    });
  }
  void barrier() override {
    call([&] { check(MPI_Barrier(host_.get()), "a barrier"); });
  }

 private:
  [[nodiscard]] Pending begin(Kind kind, View x, int root) {
    base::check(x.dtype == Dtype::Float32 && x.size <= kMostElements,
                "collectives are of float32, and fit MPI's counts");
    base::check(root >= 0 && root < ranks_, "the root is a rank");
    const std::scoped_lock lock(mutex_);
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    Job job;
    job.kind = kind;
    job.data = x.floats();
    job.size = x.size;
    job.root = root;
    job.number = ++last_;
    waiting_.push_back(std::move(job));
    wake_.notify_all();
    return last_;
  }
  // Runs `body` on the thread that owns MPI and waits for it. Ranks reach host collectives in the
  // same order, and collectives of views go on meanwhile on communicators of their own.
  void call(const std::function<void()>& body) {
    std::unique_lock lock(mutex_);
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    call_ = &body;
    wake_.notify_all();
    done_changed_.wait(lock, [&] { return call_ == nullptr || failure_ != nullptr; });
    call_ = nullptr;
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

  void stop() {
    if (!thread_.joinable()) return;
    {
      const std::scoped_lock lock(mutex_);  // not between the thread's look and its sleep
      thread_.request_stop();
    }
    wake_.notify_all();
    thread_.join();
  }

  void serve(const std::stop_token& stop) {
    std::deque<Job> running;
    try {
      while (!(stop.stop_requested() && library_.is_lost())) {
        const std::function<void()>* body = nullptr;
        {
          std::unique_lock lock(mutex_);
          if (running.empty()) {
            wake_.wait(lock, [&] {
              return stop.stop_requested() || call_ != nullptr || !waiting_.empty();
            });
            if (stop.stop_requested() && waiting_.empty() && call_ == nullptr) return;
          }
          for (; !waiting_.empty(); waiting_.pop_front()) {
            running.push_back(std::move(waiting_.front()));
            post(&running.back());
          }
          body = call_;
        }
        // A host call blocks, so what other ranks wait for must be under way: everything posted
        // before it is finished first.
        if (body != nullptr) {
          while (!running.empty()) advance(&running);
          (*body)();
          const std::scoped_lock lock(mutex_);
          call_ = nullptr;
          done_changed_.notify_all();
        } else {
          advance(&running);
        }
      }
    } catch (...) {
      library_.lose();
      const std::scoped_lock lock(mutex_);
      failure_ = std::current_exception();
      done_changed_.notify_all();
    }
  }

  [[nodiscard]] std::vector<int> counts(std::int64_t size) const {
    std::vector<int> all;
    for (int r = 0; r < ranks_; ++r) all.push_back(static_cast<int>(end(size, r) - start(size, r)));
    return all;
  }
  [[nodiscard]] std::vector<int> offsets(std::int64_t size) const {
    std::vector<int> all;
    for (int r = 0; r < ranks_; ++r) all.push_back(static_cast<int>(start(size, r)));
    return all;
  }
  [[nodiscard]] std::int64_t start(std::int64_t size, int r) const {
    return std::min(size, part_size(size) * r);
  }
  [[nodiscard]] std::int64_t end(std::int64_t size, int r) const { return start(size, r + 1); }
  [[nodiscard]] int mine(std::int64_t size) const {
    return static_cast<int>(end(size, rank_) - start(size, rank_));
  }

  // The arrays of counts and offsets must live until the collective is over; they depend on the
  // size alone, and there are few sizes.
  struct Cuts {
    std::int64_t size = 0;
    std::vector<int> counts, offsets, own_counts, own_offsets;
  };
  const Cuts& cuts_of(std::int64_t size) {
    for (const std::unique_ptr<Cuts>& cuts : cuts_) {
      if (cuts->size == size) return *cuts;
    }
    auto cuts = std::make_unique<Cuts>();
    cuts->size = size;
    cuts->counts = counts(size);
    cuts->offsets = offsets(size);
    for (int r = 0; r < ranks_; ++r) {
      cuts->own_counts.push_back(mine(size));
      cuts->own_offsets.push_back(r * mine(size));
    }
    cuts_.push_back(std::move(cuts));
    return *cuts_.back();
  }

  void post(Job* job) {
    switch (job->kind) {
      case Kind::AllReduce:
      case Kind::ReduceScatter: {
        const Cuts& cuts = cuts_of(job->size);
        job->received.resize(static_cast<std::size_t>(mine(job->size)) *
                             static_cast<std::size_t>(ranks_));
        check(MPI_Ialltoallv(job->data, cuts.counts.data(), cuts.offsets.data(), MPI_FLOAT,
                             job->received.data(), cuts.own_counts.data(), cuts.own_offsets.data(),
                             MPI_FLOAT, exchange_.get(), &job->request),
              "an exchange");
        return;
      }
      case Kind::AllGather:
        post_gather(job);
        return;
      case Kind::Broadcast:
        check(MPI_Ibcast(job->data, static_cast<int>(job->size), MPI_FLOAT, job->root,
                         broadcast_.get(), &job->request),
              "a broadcast");
        return;
    }
  }
  void post_gather(Job* job) {
    const Cuts& cuts = cuts_of(job->size);
    job->exchanged = true;
    check(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, job->data, cuts.counts.data(),
                          cuts.offsets.data(), MPI_FLOAT,
                          (job->kind == Kind::AllGather ? gather_ : sums_).get(), &job->request),
          "a gather");
  }
  void add_in_rank_order(Job* job) const {
    const auto count = static_cast<std::size_t>(mine(job->size));
    float* to = job->data + start(job->size, rank_);
    for (std::size_t i = 0; i < count; ++i) {
      float sum = job->received[i];
      for (std::size_t r = 1; r < static_cast<std::size_t>(ranks_); ++r) {
        sum += job->received[r * count + i];
      }
      to[i] = sum;
    }
  }

  // Looks at the collectives in their order. Only the first all-reduce may begin its second half,
  // since those halves must come in one order on all ranks.
  void advance(std::deque<Job>* running) {
    bool moved = false;
    bool may_gather = true;
    for (Job& job : *running) {
      int over = 0;
      check(MPI_Test(&job.request, &over, MPI_STATUS_IGNORE), "a collective");
      const bool two_halves = job.kind == Kind::AllReduce;
      if (job.exchanged) continue;
      if (over == 0 || (two_halves && !may_gather)) {
        may_gather = may_gather && !two_halves;
        continue;
      }
      if (!two_halves && job.kind != Kind::ReduceScatter) continue;
      add_in_rank_order(&job);
      job.received = {};
      job.exchanged = true;
      if (two_halves) post_gather(&job);
      moved = true;
    }
    Pending done = 0;
    while (!running->empty() && is_over(&running->front())) {
      done = running->front().number;
      running->pop_front();
    }
    if (done != 0) {
      const std::scoped_lock lock(mutex_);
      done_ = done;
      done_changed_.notify_all();
      moved = true;
    }
    if (!moved) std::this_thread::sleep_for(kPollPause);
  }
  static bool is_over(Job* job) {
    const bool sums = job->kind == Kind::AllReduce || job->kind == Kind::ReduceScatter;
    if (sums && !job->exchanged) return false;
    int over = 0;
    check(MPI_Test(&job->request, &over, MPI_STATUS_IGNORE), "a collective");
    return over != 0;
  }

  Library library_;
  OwnComm exchange_{library_}, sums_{library_}, gather_{library_}, broadcast_{library_},
      host_{library_};
  int rank_ = 0;
  int ranks_ = 1;
  std::vector<std::unique_ptr<Cuts>> cuts_;

  std::mutex mutex_;
  std::condition_variable wake_, done_changed_;
  std::deque<Job> waiting_;
  const std::function<void()>* call_ = nullptr;
  Pending last_ = 0;
  Pending done_ = 0;
  std::exception_ptr failure_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator() {
  return std::make_unique<MpiCommunicator>();
}

}  // namespace regatta::trainer
