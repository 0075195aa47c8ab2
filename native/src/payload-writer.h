// One payload file in the making. Bytes arrive in order; each is written once and goes into the digest of
// the file and, past the prefix, of exactly one tensor. One call runs at a time, on any thread. After a
// failure every further call fails in the same way, because how far the file got is no longer certain.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chunk-ring.h"
#include "failure.h"
#include "payload-source.h"
#include "progress.h"
#include "sha256.h"

namespace weightroom {

// Splits a stream of bytes into tensors of known lengths and digests each.
class TensorDigests {
 public:
  explicit TensorDigests(std::vector<uint64_t> lengths) : lengths_(std::move(lengths)) {}
  // Feeds the tensors and, in step with them, the digest of the whole file.
  void Update(Chunk chunk, Sha256& file);
  // All declared bytes have been fed.
  std::vector<std::string> Finish();

 private:
  void CloseFullTensors();

  std::vector<uint64_t> lengths_;
  std::vector<std::string> digests_;
  Sha256 current_;
  uint64_t fed_ = 0;  // bytes of the current tensor
};

struct PayloadDigests {
  std::string file;
  std::vector<std::string> tensors;
};

class PayloadWriter {
 public:
  PayloadWriter(int fd, uint64_t prefix_bytes, std::vector<uint64_t> tensor_lengths);

  void WritePrefix(Chunk prefix);
  void Append(PayloadSource& source, const ProgressView& progress);
  PayloadDigests Finish();

 private:
  template <typename Call>
  auto Sticky(Call call);
  void Run(PayloadSource& source, const ProgressView& progress);
  void RunOnThreads(PayloadSource& source, const ProgressView& progress);
  void Put(Chunk chunk, const ProgressView& progress);

  int fd_;
  uint64_t total_;
  uint64_t position_ = 0;
  uint64_t written_back_ = 0;  // up to here the kernel was asked to start writing
  Sha256 file_;
  TensorDigests tensors_;
  std::unique_ptr<ChunkRing> ring_;
  std::optional<Failure> failure_;
  std::optional<PayloadDigests> finished_;
};

}  // namespace weightroom
