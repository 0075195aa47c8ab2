// pread, pwrite, fsync and fallocate, in place or on the pool; see transfers.h.
#include "transfers.h"

#include <fcntl.h>
#include <unistd.h>

#include "args.h"
#include "exports.h"
#include "jobs.h"

namespace weightroom {

size_t ReadFully(int fd, uint8_t* into, size_t size, uint64_t offset) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got =
        Retry([&] { return ::pread(fd, into + done, size - done, static_cast<off_t>(offset + done)); });
    if (got < 0) Fail("pread");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

void WriteFully(int fd, const uint8_t* from, size_t size, uint64_t offset) {
  size_t done = 0;
  while (done < size) {
    const ssize_t put =
        Retry([&] { return ::pwrite(fd, from + done, size - done, static_cast<off_t>(offset + done)); });
    if (put < 0) Fail("pwrite");
    if (put == 0) throw Failure{EIO, "pwrite"};
    done += static_cast<size_t>(put);
  }
}

namespace {

struct Transfer {
  int fd;
  Bytes bytes;
  uint64_t offset;
};

Transfer TransferArgs(const Napi::CallbackInfo& info, const char* label) {
  Transfer transfer{DescriptorArg(info[0], "fd"), BytesArg(info[1], label), SafeIntegerArg(info[2], "offset")};
  if (transfer.bytes.size > kLargestSafeInteger - transfer.offset) BadRange(info.Env(), "offset is too large");
  return transfer;
}

Napi::Value PreadSync(const Napi::CallbackInfo& info) {
  const Transfer t = TransferArgs(info, "buffer");
  return Napi::Number::New(info.Env(), static_cast<double>(ReadFully(t.fd, t.bytes.data, t.bytes.size, t.offset)));
}

Napi::Value PwriteSync(const Napi::CallbackInfo& info) {
  const Transfer t = TransferArgs(info, "bytes");
  WriteFully(t.fd, t.bytes.data, t.bytes.size, t.offset);
  return info.Env().Undefined();
}

Napi::Value Pread(const Napi::CallbackInfo& info) {
  const Transfer t = TransferArgs(info, "buffer");
  const auto read = [t] { return ReadFully(t.fd, t.bytes.data, t.bytes.size, t.offset); };
  const auto convert = [](napi_env env, size_t bytes) {
    napi_value value = nullptr;
    napi_create_double(env, static_cast<double>(bytes), &value);
    return value;
  };
  return {info.Env(), RunJob(info.Env(), {info[1]}, read, convert)};
}

Napi::Value Pwrite(const Napi::CallbackInfo& info) {
  const Transfer t = TransferArgs(info, "bytes");
  const auto write = [t] { WriteFully(t.fd, t.bytes.data, t.bytes.size, t.offset); };
  return {info.Env(), RunJob(info.Env(), {info[1]}, write)};
}

Napi::Value Fsync(const Napi::CallbackInfo& info) {
  const auto sync = [fd = DescriptorArg(info[0], "fd")] {
    if (Retry([&] { return ::fsync(fd); }) != 0) Fail("fsync");
  };
  return {info.Env(), RunJob(info.Env(), {}, sync)};
}

Napi::Value Fallocate(const Napi::CallbackInfo& info) {
  const int fd = DescriptorArg(info[0], "fd");
  const auto size = static_cast<off_t>(SafeIntegerArg(info[1], "sizeBytes"));
  const auto allocate = [fd, size] {
    if (Retry([&] { return ::fallocate(fd, 0, 0, size); }) != 0) Fail("fallocate");
  };
  return {info.Env(), RunJob(info.Env(), {}, allocate)};
}

}  // namespace

void ExportTransfers(Napi::Object exports) {
  Export<PreadSync>(exports, "preadSync");
  Export<PwriteSync>(exports, "pwriteSync");
  Export<Pread>(exports, "pread");
  Export<Pwrite>(exports, "pwrite");
  Export<Fsync>(exports, "fsync");
  Export<Fallocate>(exports, "fallocate");
}

}  // namespace weightroom
