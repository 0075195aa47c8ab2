// One payload file in the making: bytes arrive in order, and each is written once. One call runs at a time, on
// any thread. After a failure every further call fails in the same way, because how far the file got is no
// longer certain. What was written is digested afterwards, from the page cache, by as many threads as help.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "failure.h"
#include "payload-source.h"
#include "progress.h"

namespace weightroom {

// Has the kernel start writing what is there already, so that the disk works while bytes still come and the
// later fsync is short. On a thread of its own, because the call waits while the disk is busy. Nothing depends
// on its success.
class WriteBehind {
 public:
  WriteBehind(int fd, uint64_t from);
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  // Everything up to here has been written.
  void Written(uint64_t position);

 private:
  void Run(int fd, uint64_t from);

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t position_;
  bool ended_ = false;
  std::thread thread_;
};

class PayloadWriter {
 public:
  // `total_bytes` in all, the prefix included.
  PayloadWriter(int fd, uint64_t total_bytes) : fd_(fd), total_(total_bytes) {}

  void WritePrefix(Chunk prefix);
  void Append(PayloadSource& source, const ProgressView& progress);
  void Finish();

 private:
  template <typename Call>
  void Sticky(Call call);
  void Put(Chunk chunk);

  int fd_;
  uint64_t total_;
  uint64_t position_ = 0;
  std::unique_ptr<uint8_t[]> buffer_;
  std::optional<Failure> failure_;
};

}  // namespace weightroom
