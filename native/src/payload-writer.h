// One payload file in the making: bytes arrive in order, and each is written once. One call runs at a time, on
// any thread. After a failure every further call fails in the same way, because how far the file got is no
// longer certain. What was written is digested afterwards, from the page cache, by as many threads as help.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "failure.h"
#include "payload-source.h"
#include "progress.h"

namespace weightroom {

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
  void Put(Chunk chunk, const ProgressView& progress);

  int fd_;
  uint64_t total_;
  uint64_t position_ = 0;
  uint64_t written_back_ = 0;  // up to here the kernel was asked to start writing
  std::unique_ptr<uint8_t[]> buffer_;
  std::optional<Failure> failure_;
};

}  // namespace weightroom
