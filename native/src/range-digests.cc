// How the ranges are spread over threads. A range is one chain of blocks that nothing can split, so a long one
// bounds the time of all: long ranges run alone or in pairs on SHA instructions, and the many short ones beside
// them, as many together as the processor has lanes, each replaced when it ends.
#include "range-digests.h"

#include <fcntl.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "sha256-lanes.h"
#include "sha256.h"
#include "transfers.h"

namespace weightroom {
namespace {

// What a stream holds in memory. Sixteen of them stay within a core's own cache.
constexpr size_t kBufferBytes = size_t{64} << 10;
// How far ahead the kernel is asked to read.
constexpr uint64_t kReadAheadBytes = uint64_t{4} << 20;
constexpr size_t kMostThreads = 8;
// Below this, a thread costs more than it saves.
constexpr uint64_t kBytesPerThread = uint64_t{1} << 20;

size_t UsableProcessors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<size_t>(CPU_COUNT(&set));
}

// The ranges that nobody has begun. Long ones come longest first, short ones in their own order, which is the
// order in which the files lie on the disk more often than not.
class Queue {
 public:
  Queue(const std::vector<Range>& ranges, size_t threads) : threads_(threads) {
    uint64_t total = 0;
    for (const Range& range : ranges) total += range.length;
    for (size_t i = 0; i < ranges.size(); i++) {
      // In a lane it would not end before all else has.
      const bool is_long = ranges[i].length > total / (threads * Sha256::MostTogether());
      (is_long ? long_ : short_).push_back(i);
    }
    std::stable_sort(long_.begin(), long_.end(),
                     [&](size_t a, size_t b) { return ranges[a].length > ranges[b].length; });
    lane_threads_ = short_.empty() ? 0 : long_.empty() ? threads : std::max<size_t>(threads / 2, 1);
  }

  // Whether the thread of this number begins with short ranges.
  bool BeginsShort(size_t thread) const { return thread < lane_threads_; }

  std::optional<size_t> TakeShort() { return Take(short_); }

  // One long range, or two at once where there are more of them than threads.
  std::vector<size_t> TakeLong() {
    const std::lock_guard lock(mutex_);
    std::vector<size_t> taken;
    const size_t count = long_.size() > threads_ ? 2 : 1;
    while (taken.size() < count && !long_.empty()) {
      taken.push_back(long_.front());
      long_.pop_front();
    }
    return taken;
  }

 private:
  std::optional<size_t> Take(std::deque<size_t>& from) {
    const std::lock_guard lock(mutex_);
    if (from.empty()) return std::nullopt;
    const size_t taken = from.front();
    from.pop_front();
    return taken;
  }

  size_t threads_;
  size_t lane_threads_ = 0;
  std::mutex mutex_;
  std::deque<size_t> long_;
  std::deque<size_t> short_;
};

// One range on its way through a buffer.
class Stream {
 public:
  void Begin(size_t index, const Range& range) {
    index_ = index;
    range_ = &range;
    read_ = advised_ = at_ = filled_ = 0;
    digest_ = Sha256();
    if (!buffer_) buffer_ = std::make_unique_for_overwrite<uint8_t[]>(kBufferBytes);
  }

  size_t index() const { return index_; }
  size_t Blocks() const { return (filled_ - at_) / kSha256Block; }
  Sha256::Feed Feed() { return {&digest_, buffer_.get() + at_}; }
  void Fed(size_t blocks) { at_ += blocks * kSha256Block; }

  // Reads on where no whole block is left. False when the range has ended.
  bool Fill(const ProgressView& progress) {
    if (Blocks() > 0) return true;
    if (read_ == range_->length) return false;
    ReadAhead();
    const size_t wanted = std::min<uint64_t>(kBufferBytes, range_->length - read_);
    if (ReadFully(range_->fd, buffer_.get(), wanted, range_->offset + read_) < wanted) {
      throw Failure{EIO, "pread", {}, "the file ends before the range does"};
    }
    progress.Add(wanted);
    read_ += wanted;
    at_ = 0;
    filled_ = wanted;
    return Blocks() > 0 || Fill(progress);
  }

  std::string Finish() {
    digest_.Update(buffer_.get() + at_, filled_ - at_);
    return digest_.FinishHex();
  }

 private:
  // Several streams over one descriptor defeat the kernel's own guess at what comes next.
  void ReadAhead() {
    if (read_ + kReadAheadBytes / 2 < advised_ || advised_ >= range_->length) return;
    const uint64_t from = std::max(advised_, read_), end = std::min(range_->length, read_ + kReadAheadBytes);
    ::posix_fadvise(range_->fd, static_cast<off_t>(range_->offset + from), static_cast<off_t>(end - from),
                    POSIX_FADV_WILLNEED);
    advised_ = end;
  }

  size_t index_ = 0;
  const Range* range_ = nullptr;
  uint64_t read_ = 0;
  uint64_t advised_ = 0;
  size_t at_ = 0;
  size_t filled_ = 0;
  Sha256 digest_;
  std::unique_ptr<uint8_t[]> buffer_;
};

class Work {
 public:
  Work(const std::vector<Range>& ranges, const ProgressView& progress, size_t threads)
      : ranges_(ranges), progress_(progress), queue_(ranges, threads), digests_(ranges.size()) {}

  void Run(size_t thread) {
    try {
      std::vector<Stream> streams(std::max<size_t>(Sha256::MostTogether(), 2));
      // A thread ends where it began only when the other kind has run out too.
      if (queue_.BeginsShort(thread)) RunShort(streams);
      RunLong(streams);
      RunShort(streams);
    } catch (const Failure& failure) {
      StopWith(failure);
    } catch (const std::bad_alloc&) {
      StopWith(Failure{ENOMEM, "malloc"});
    }
  }

  std::vector<std::string> Result() {
    if (failure_) throw *failure_;
    return std::move(digests_);
  }

 private:
  void RunShort(std::vector<Stream>& streams) {
    size_t active = 0;
    for (;;) {
      while (active < streams.size()) {
        const auto next = queue_.TakeShort();
        if (!next) break;
        streams[active++].Begin(*next, ranges_[*next]);
      }
      if (active == 0) return;
      active = Step(streams, active);
    }
  }

  void RunLong(std::vector<Stream>& streams) {
    for (;;) {
      const auto taken = queue_.TakeLong();
      if (taken.empty()) return;
      for (size_t i = 0; i < taken.size(); i++) streams[i].Begin(taken[i], ranges_[taken[i]]);
      for (size_t active = taken.size(); active > 0;) active = Step(streams, active);
    }
  }

  // Feeds what the first `active` streams hold, as far as the shortest of them goes; returns how many go on.
  size_t Step(std::vector<Stream>& streams, size_t active) {
    progress_.ThrowIfCanceled("pread");
    if (stopped_.load(std::memory_order_relaxed)) throw Failure{ECANCELED, "pread"};
    for (size_t i = 0; i < active;) {
      if (FillNamed(streams[i])) {
        i++;
        continue;
      }
      digests_[streams[i].index()] = streams[i].Finish();
      std::swap(streams[i], streams[--active]);
    }
    return active == 0 ? 0 : Feed(streams, active);
  }

  size_t Feed(std::vector<Stream>& streams, size_t active) {
    std::array<Sha256::Feed, kMostLanes> feeds;
    size_t blocks = streams[0].Blocks();
    for (size_t i = 0; i < active; i++) {
      blocks = std::min(blocks, streams[i].Blocks());
      feeds[i] = streams[i].Feed();
    }
    Sha256::UpdateTogether({feeds.data(), active}, blocks);
    for (size_t i = 0; i < active; i++) streams[i].Fed(blocks);
    return active;
  }

  bool FillNamed(Stream& stream) {
    try {
      return stream.Fill(progress_);
    } catch (Failure& failure) {
      failure.item = static_cast<int64_t>(stream.index());
      throw;
    }
  }

  // The first failure is the cause; stopping the others makes them fail too.
  void StopWith(const Failure& failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
    stopped_ = true;
  }

  const std::vector<Range>& ranges_;
  const ProgressView& progress_;
  Queue queue_;
  std::vector<std::string> digests_;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::optional<Failure> failure_;
};

}  // namespace

std::vector<std::string> DigestRanges(const std::vector<Range>& ranges, const ProgressView& progress) {
  progress.ThrowIfCanceled("pread");
  uint64_t total = 0;
  for (const Range& range : ranges) total += range.length;
  const size_t useful = static_cast<size_t>(std::min<uint64_t>(total / kBytesPerThread, ranges.size()));
  const size_t threads = std::clamp<size_t>(std::min(useful, UsableProcessors()), 1, kMostThreads);
  Work work(ranges, progress, threads);
  {
    std::vector<std::jthread> others;
    for (size_t i = 1; i < threads; i++) {
      try {
        others.emplace_back([&work, i] { work.Run(i); });
      } catch (const std::system_error&) {
        // One thread does it all, only later.
        break;
      }
    }
    work.Run(0);
  }
  return work.Result();
}

}  // namespace weightroom
