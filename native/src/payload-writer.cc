// The two lanes of a payload: this thread reads, casts and writes; another one digests the file and its
// tensors in step, which is as fast as a thread for each where there are two cores, and leaves one free.
#include "payload-writer.h"

#include <fcntl.h>

#include <algorithm>
#include <new>
#include <numeric>
#include <system_error>

#include "transfers.h"

namespace weightroom {
namespace {

constexpr uint64_t kWriteBackBytes = uint64_t{8} << 20;

}  // namespace

void TensorDigests::CloseFullTensors() {
  while (digests_.size() < lengths_.size() && fed_ == lengths_[digests_.size()]) {
    digests_.push_back(current_.FinishHex());
    current_ = Sha256();
    fed_ = 0;
  }
}

void TensorDigests::Update(Chunk chunk, Sha256& file) {
  while (!chunk.empty()) {
    CloseFullTensors();
    const size_t part = std::min<uint64_t>(chunk.size(), lengths_[digests_.size()] - fed_);
    Sha256::UpdateBoth(file, current_, chunk.data(), part);
    fed_ += part;
    chunk = chunk.subspan(part);
  }
}

std::vector<std::string> TensorDigests::Finish() {
  CloseFullTensors();
  return std::move(digests_);
}

PayloadWriter::PayloadWriter(int fd, uint64_t prefix_bytes, std::vector<uint64_t> tensor_lengths)
    : fd_(fd),
      total_(std::accumulate(tensor_lengths.begin(), tensor_lengths.end(), prefix_bytes)),
      tensors_(std::move(tensor_lengths)) {}

template <typename Call>
auto PayloadWriter::Sticky(Call call) {
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
  ring_.reset();
  throw *failure_;
}

void PayloadWriter::WritePrefix(Chunk prefix) {
  Sticky([&] {
    Put(prefix, ProgressView(nullptr));
    file_.Update(prefix.data(), prefix.size());
  });
}

void PayloadWriter::Append(PayloadSource& source, const ProgressView& progress) {
  Sticky([&] {
    progress.ThrowIfCanceled("pwrite");
    if (source.Remaining() > total_ - position_) {
      throw Failure{EFBIG, "pwrite", {}, "more bytes than the payload has left"};
    }
    if (!ring_) ring_ = std::make_unique<ChunkRing>();
    // Threads cost more than they gain where there is little to do.
    if (source.Remaining() < kChunkBytes) {
      Run(source, progress);
    } else {
      RunOnThreads(source, progress);
    }
  });
}

void PayloadWriter::Run(PayloadSource& source, const ProgressView& progress) {
  while (source.Remaining() > 0) {
    const Chunk chunk = source.Next(ring_->Acquire());
    Put(chunk, progress);
    tensors_.Update(chunk, file_);
  }
}

void PayloadWriter::RunOnThreads(PayloadSource& source, const ProgressView& progress) {
  const Lane digests = [this](Chunk chunk) { tensors_.Update(chunk, file_); };
  const LaneThreads digesting(*ring_, {digests});
  while (source.Remaining() > 0) {
    progress.ThrowIfCanceled("pwrite");
    const Chunk chunk = source.Next(ring_->Acquire());
    ring_->Publish(chunk);
    Put(chunk, progress);
  }
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

PayloadDigests PayloadWriter::Finish() {
  return Sticky([&] {
    if (finished_) return *finished_;
    if (position_ < total_) throw Failure{EIO, "pwrite", {}, "the payload is not complete"};
    finished_ = PayloadDigests{file_.FinishHex(), tensors_.Finish()};
    ring_.reset();
    return *finished_;
  });
}

}  // namespace weightroom
