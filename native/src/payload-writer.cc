// Reads, casts and writes a payload; see payload-writer.h.
#include "payload-writer.h"

#include <fcntl.h>

#include <new>

#include "transfers.h"

namespace weightroom {
namespace {

constexpr uint64_t kWriteBackBytes = uint64_t{8} << 20;

}  // namespace

template <typename Call>
void PayloadWriter::Sticky(Call call) {
  if (failure_) throw *failure_;
  try {
    return call();
  } catch (const Failure& failure) {
    failure_ = failure;
  } catch (const std::bad_alloc&) {
    failure_ = Failure{ENOMEM, "malloc"};
  }
  buffer_.reset();
  throw *failure_;
}

void PayloadWriter::WritePrefix(Chunk prefix) {
  Sticky([&] { Put(prefix, ProgressView(nullptr)); });
}

void PayloadWriter::Append(PayloadSource& source, const ProgressView& progress) {
  Sticky([&] {
    progress.ThrowIfCanceled("pwrite");
    if (source.Remaining() > total_ - position_) {
      throw Failure{EFBIG, "pwrite", {}, "more bytes than the payload has left"};
    }
    if (!buffer_) buffer_ = std::make_unique_for_overwrite<uint8_t[]>(kChunkBytes);
    while (source.Remaining() > 0) {
      progress.ThrowIfCanceled("pwrite");
      Put(source.Next(buffer_.get()), progress);
    }
  });
}

// Starting write-back early keeps the disk busy and the later fsync short; nothing depends on it.
void PayloadWriter::Put(Chunk chunk, const ProgressView& progress) {
  WriteFully(fd_, chunk.data(), chunk.size(), position_);
  position_ += chunk.size();
  progress.Add(chunk.size());
  if (position_ - written_back_ < kWriteBackBytes) return;
  ::sync_file_range(fd_, static_cast<off_t>(written_back_), static_cast<off_t>(position_ - written_back_),
                    SYNC_FILE_RANGE_WRITE);
  written_back_ = position_;
}

void PayloadWriter::Finish() {
  Sticky([&] {
    if (position_ < total_) throw Failure{EIO, "pwrite", {}, "the payload is not complete"};
    buffer_.reset();
  });
}

}  // namespace weightroom
