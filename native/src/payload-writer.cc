// Reads, casts and writes a payload; see payload-writer.h.
#include "payload-writer.h"

#include <fcntl.h>

#include <new>
#include <system_error>

#include "transfers.h"

namespace weightroom {
namespace {

constexpr uint64_t kWriteBehindBytes = uint64_t{8} << 20;

}  // namespace

WriteBehind::WriteBehind(int fd, uint64_t from)
    : position_(from), thread_([this, fd, from] { Run(fd, from); }) {}

WriteBehind::~WriteBehind() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void WriteBehind::Written(uint64_t position) {
  {
    const std::lock_guard lock(mutex_);
    position_ = position;
  }
  changed_.notify_one();
}

void WriteBehind::Run(int fd, uint64_t from) {
  for (;;) {
    uint64_t until;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ended_ || position_ - from >= kWriteBehindBytes; });
      // What is left is the fsync's.
      if (ended_) return;
      until = position_;
    }
    ::sync_file_range(fd, static_cast<off_t>(from), static_cast<off_t>(until - from), SYNC_FILE_RANGE_WRITE);
    from = until;
  }
}

template <typename Call>
void PayloadWriter::Sticky(Call call) {
  if (failure_) throw *failure_;
  try {
    return call();
  } catch (const Failure& failure) {
    failure_ = failure;
  } catch (const std::bad_alloc&) {
    failure_ = Failure{ENOMEM, "malloc"};
  } catch (const std::system_error& error) {
    failure_ = Failure{error.code().value(), "pthread_create"};
  }
  buffer_.reset();
  throw *failure_;
}

void PayloadWriter::WritePrefix(Chunk prefix) {
  Sticky([&] { Put(prefix); });
}

void PayloadWriter::Append(PayloadSource& source, const ProgressView& progress) {
  Sticky([&] {
    progress.ThrowIfCanceled("pwrite");
    if (source.Remaining() > total_ - position_) {
      throw Failure{EFBIG, "pwrite", {}, "more bytes than the payload has left"};
    }
    if (!buffer_) buffer_ = std::make_unique_for_overwrite<uint8_t[]>(kChunkBytes);
    std::optional<WriteBehind> behind;
    if (source.Remaining() > kWriteBehindBytes) behind.emplace(fd_, position_);
    while (source.Remaining() > 0) {
      progress.ThrowIfCanceled("pwrite");
      const Chunk chunk = source.Next(buffer_.get());
      Put(chunk);
      progress.Add(chunk.size());
      if (behind) behind->Written(position_);
    }
  });
}

void PayloadWriter::Put(Chunk chunk) {
  WriteFully(fd_, chunk.data(), chunk.size(), position_);
  position_ += chunk.size();
}

void PayloadWriter::Finish() {
  Sticky([&] {
    if (position_ < total_) throw Failure{EIO, "pwrite", {}, "the payload is not complete"};
    buffer_.reset();
  });
}

}  // namespace weightroom
