// libfake-cuda.so: the part of the CUDA driver API (and of NVML) that Weightroom uses, without a GPU. What it
// does is told by the JSON file that FAKE_CUDA_CONFIG names; README.md beside this lists its fields. Every call is
// appended to the log before it does anything, so that a test can prove what was called and what was not.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "json.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace fake {
namespace {

using Result = int;
constexpr Result kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialised = 3, kNoDevice = 100,
                 kInvalidDevice = 101, kInvalidContext = 201, kAlreadyRegistered = 712, kNotRegistered = 713,
                 kNotPermitted = 800, kNotSupported = 801, kUnknown = 999;
constexpr int kReadOnlyRegister = 113, kHostRegister = 99;
constexpr unsigned kReadOnlyFlag = 0x08;

struct Name {
  Result code;
  const char* name;
  const char* text;
};
constexpr Name kNames[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialised, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {kNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {kNotPermitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {kUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

struct Driver {
  Json config;
  std::vector<int> visible;  // numbers in the configuration, as CUDA_VISIBLE_DEVICES orders them
  bool initialised = false;
  int current = -1;  // number in the configuration
  std::map<std::string, int> calls;  // per list of rules and device, from 1
  std::map<uintptr_t, size_t> registered;
  uint64_t pinned = 0;
  Result latched = kSuccess;
  std::mutex mutex;

  static Driver& Get() {
    static Driver* driver = new Driver();  // never destroyed: a thread may hang in it when the process ends
    return *driver;
  }

  std::string DeviceText(int number, const char* field) const {
    return config["devices"].items[static_cast<size_t>(number)][field].TextOr("");
  }

 private:
  Driver() {
    const char* path = getenv("FAKE_CUDA_CONFIG");
    if (path == nullptr) return;
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    try {
      const std::string whole = text.str();
      config = JsonParser(whole).Parse();
    } catch (const std::exception& error) {
      fprintf(stderr, "fake-cuda: %s: %s\n", path, error.what());
      return;
    }
    ChooseVisible();
  }

  void ChooseVisible() {
    const int count = static_cast<int>(config["devices"].items.size());
    const char* chosen = getenv("CUDA_VISIBLE_DEVICES");
    if (chosen == nullptr) {
      for (int i = 0; i < count; i++) visible.push_back(i);
      return;
    }
    std::stringstream words(chosen);
    for (std::string word; std::getline(words, word, ',');) {
      int found = -1;
      for (int i = 0; i < count; i++) {
        if (word == std::to_string(i) || word == DeviceText(i, "uuid")) found = i;
      }
      if (found < 0) return;  // as the driver does it: nothing behind a wrong one counts
      visible.push_back(found);
    }
  }
};

double Seconds() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

void SleepFor(double seconds) {
  if (seconds <= 0) return;
  struct timespec left = {static_cast<time_t>(seconds), 0};
  left.tv_nsec = static_cast<long>((seconds - static_cast<double>(left.tv_sec)) * 1e9);
  while (nanosleep(&left, &left) != 0) {
  }
}

// One write for each line: processes and threads share the file.
void Log(const char* call, int device, const std::string& more = "") {
  const std::string path = Driver::Get().config["log"].TextOr("");
  if (path.empty()) return;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  char head[200];
  snprintf(head, sizeof head, "{\"pid\": %d, \"at\": %.6f, \"call\": \"%s\", \"device\": %s", getpid(), Seconds(), call,
           device < 0 ? "null" : std::to_string(device).c_str());
  const std::string line = head + more + "}\n";
  if (write(fd, line.data(), line.size()) < 0) perror("fake-cuda: log");
  close(fd);
}

// While one process is in a register call, it holds this lock: how `exclusive` knows of the others.
class Inside {
 public:
  Inside() {
    const std::string path = Driver::Get().config["log"].TextOr("");
    if (path.empty()) return;
    fd_ = open((path + ".inside").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd_ < 0) return;
    alone_ = flock(fd_, LOCK_EX | LOCK_NB) == 0;
    flock(fd_, LOCK_SH);
  }
  ~Inside() {
    if (fd_ >= 0) close(fd_);
  }
  bool Alone() const { return alone_; }

 private:
  int fd_ = -1;
  bool alone_ = true;
};

[[noreturn]] void Hang() {
  for (;;) SleepFor(1e6);
}

// A real call can hold the lock of the address space, and every thread that needs it waits then: this stops the first
// thread, deaf to all signals, so that only SIGKILL ends the process.
[[noreturn]] void HangDeafly() {
  signal(SIGTERM, SIG_IGN);
  struct sigaction stop = {};
  sigfillset(&stop.sa_mask);
  stop.sa_handler = [](int) {
    for (;;) pause();
  };
  sigaction(SIGRTMAX, &stop, nullptr);
  syscall(SYS_tgkill, getpid(), getpid(), SIGRTMAX);
  Hang();
}

// The parent of a vfork waits in state D, as a thread does that waits for a device.
[[noreturn]] void HangUninterruptibly() {
  for (;;) {
    const pid_t child = vfork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) pause();
    }
    if (child > 0) waitpid(child, nullptr, 0);
  }
}

// What the rules of one list say for this call: a code, or kSuccess for nothing.
Result Obey(const char* list, int device, bool alone) {
  Driver& driver = Driver::Get();
  std::unique_lock lock(driver.mutex);
  const int call = ++driver.calls[std::string(list) + std::to_string(device)];
  for (const Json& rule : driver.config[list].items) {
    if (rule["device"].Given() && static_cast<int>(rule["device"].number) != device) continue;
    if (rule["call"].Given() && static_cast<int>(rule["call"].number) != call) continue;
    if (rule["exclusive"].BooleanOr(false) && alone) continue;
    const std::string action = rule["do"].TextOr("fail");
    lock.unlock();
    if (action == "hang-ignoring-sigterm") HangDeafly();
    if (action == "hang-uninterruptible") HangUninterruptibly();
    if (action != "fail") Hang();
    const auto code = static_cast<Result>(rule["code"].NumberOr(kUnknown));
    if (rule["latch"].BooleanOr(false)) driver.latched = code;
    return code;
  }
  return kSuccess;
}

// A latched failure is the result of the next call, whatever that is.
Result Latched() { return std::exchange(Driver::Get().latched, kSuccess); }

bool Number(int handle, int* number) {
  const auto& visible = Driver::Get().visible;
  if (handle < 0 || static_cast<size_t>(handle) >= visible.size()) return false;
  *number = visible[static_cast<size_t>(handle)];
  return true;
}

Result CopyText(char* to, int size, const std::string& text) {
  if (size < 1) return kInvalidValue;
  snprintf(to, static_cast<size_t>(size), "%s", text.c_str());
  return kSuccess;
}

Result Register(uintptr_t address, size_t bytes, unsigned flags) {
  Driver& driver = Driver::Get();
  const Json& device = driver.config["devices"].items[static_cast<size_t>(driver.current)];
  const Inside inside;
  const Result told = Obey("register", driver.current, inside.Alone());
  if (told != kSuccess) return told;
  if ((flags & kReadOnlyFlag) != 0 && !device["read_only_register"].BooleanOr(true)) return kNotSupported;
  SleepFor(driver.config["latency_ms"].NumberOr(0) / 1000);
  const double rate = driver.config["bytes_per_second"].NumberOr(0);
  if (rate > 0) SleepFor(static_cast<double>(bytes) / rate);
  const std::lock_guard lock(driver.mutex);
  const auto after = driver.registered.lower_bound(address);
  if (after != driver.registered.end() && after->first < address + bytes) return kAlreadyRegistered;
  if (after != driver.registered.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second > address) return kAlreadyRegistered;
  }
  const Json& limit = driver.config["pinned_limit"];
  if (limit.Given() && static_cast<double>(driver.pinned + bytes) > limit.number) return kOutOfMemory;
  driver.registered[address] = bytes;
  driver.pinned += bytes;
  return kSuccess;
}

Result Unregister(uintptr_t address) {
  Driver& driver = Driver::Get();
  const Result told = Obey("unregister", driver.current, true);
  if (told != kSuccess) return told;
  const std::lock_guard lock(driver.mutex);
  const auto found = driver.registered.find(address);
  if (found == driver.registered.end()) return kNotRegistered;
  driver.pinned -= found->second;
  driver.registered.erase(found);
  return kSuccess;
}

std::string Range(const void* address, size_t bytes) {
  char text[120];
  snprintf(text, sizeof text, ", \"address\": \"%p\", \"bytes\": %zu", address, bytes);
  return text;
}

}  // namespace
}  // namespace fake

using namespace fake;

// Its presence is the label: a real driver has no such symbol.
EXPORT const int weightroom_simulated_driver = 1;

EXPORT Result cuInit(unsigned) {
  Driver& driver = Driver::Get();
  Log("cuInit", -1);
  for (const int number : driver.visible) {
    const Result told = Obey("init", number, true);
    if (told != kSuccess) return told;
  }
  if (driver.visible.empty()) return kNoDevice;
  driver.initialised = true;
  return kSuccess;
}

EXPORT Result cuDriverGetVersion(int* version) {
  Log("cuDriverGetVersion", -1);
  *version = static_cast<int>(Driver::Get().config["driver"].NumberOr(13000));
  return kSuccess;
}

EXPORT Result cuDeviceGetCount(int* count) {
  Log("cuDeviceGetCount", -1);
  *count = static_cast<int>(Driver::Get().visible.size());
  return Driver::Get().initialised ? kSuccess : kNotInitialised;
}

EXPORT Result cuDeviceGet(int* handle, int ordinal) {
  int number = -1;
  const bool known = Number(ordinal, &number);
  Log("cuDeviceGet", number);
  *handle = ordinal;
  return known ? kSuccess : kInvalidDevice;
}

EXPORT Result cuDeviceGetName(char* name, int size, int handle) {
  int number = -1;
  if (!Number(handle, &number)) return kInvalidDevice;
  Log("cuDeviceGetName", number);
  return CopyText(name, size, Driver::Get().DeviceText(number, "name"));
}

EXPORT Result cuDeviceGetUuid_v2(unsigned char* uuid, int handle) {
  int number = -1;
  if (!Number(handle, &number)) return kInvalidDevice;
  Log("cuDeviceGetUuid", number);
  std::string digits = Driver::Get().DeviceText(number, "uuid");
  if (digits.rfind("GPU-", 0) == 0) digits.erase(0, 4);
  digits.erase(std::remove(digits.begin(), digits.end(), '-'), digits.end());
  digits.resize(32, '0');
  for (size_t i = 0; i < 16; i++) uuid[i] = static_cast<unsigned char>(strtol(digits.substr(2 * i, 2).c_str(), nullptr, 16));
  return kSuccess;
}

EXPORT Result cuDeviceGetAttribute(int* value, int attribute, int handle) {
  int number = -1;
  if (!Number(handle, &number)) return kInvalidDevice;
  Log("cuDeviceGetAttribute", number, ", \"attribute\": " + std::to_string(attribute));
  const Json& device = Driver::Get().config["devices"].items[static_cast<size_t>(number)];
  if (attribute != kReadOnlyRegister && attribute != kHostRegister) return kInvalidValue;
  *value = attribute == kHostRegister || device["read_only_register"].BooleanOr(true) ? 1 : 0;
  return kSuccess;
}

EXPORT Result cuDeviceGetPCIBusId(char* text, int size, int handle) {
  int number = -1;
  if (!Number(handle, &number)) return kInvalidDevice;
  Log("cuDeviceGetPCIBusId", number);
  return CopyText(text, size, Driver::Get().DeviceText(number, "pci"));
}

EXPORT Result cuDeviceTotalMem_v2(size_t* bytes, int handle) {
  int number = -1;
  if (!Number(handle, &number)) return kInvalidDevice;
  Log("cuDeviceTotalMem", number);
  const Json& device = Driver::Get().config["devices"].items[static_cast<size_t>(number)];
  *bytes = static_cast<size_t>(device["total_bytes"].NumberOr(0));
  return kSuccess;
}

EXPORT Result cuDevicePrimaryCtxRetain(void** context, int handle) {
  int number = -1;
  if (!Number(handle, &number)) return kInvalidDevice;
  Log("cuDevicePrimaryCtxRetain", number);
  *context = reinterpret_cast<void*>(static_cast<intptr_t>(number) + 1);
  return Obey("context", number, true);
}

EXPORT Result cuDevicePrimaryCtxRelease_v2(int handle) {
  int number = -1;
  if (!Number(handle, &number)) return kInvalidDevice;
  Log("cuDevicePrimaryCtxRelease", number);
  return kSuccess;
}

EXPORT Result cuCtxSetCurrent(void* context) {
  Driver& driver = Driver::Get();
  driver.current = static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1;
  Log("cuCtxSetCurrent", driver.current);
  return Latched();
}

EXPORT Result cuMemHostRegister_v2(void* address, size_t bytes, unsigned flags) {
  const int device = Driver::Get().current;
  if (device < 0) return kInvalidContext;
  Log("cuMemHostRegister", device, Range(address, bytes) + ", \"flags\": " + std::to_string(flags));
  if (const Result latched = Latched()) return latched;
  const double begun = Seconds();
  const Result result = Register(reinterpret_cast<uintptr_t>(address), bytes, flags);
  char more[100];
  snprintf(more, sizeof more, ", \"result\": %d, \"seconds\": %.6f", result, Seconds() - begun);
  Log("cuMemHostRegister returned", device, Range(address, bytes) + more);
  return result;
}

EXPORT Result cuMemHostUnregister(void* address) {
  const int device = Driver::Get().current;
  if (device < 0) return kInvalidContext;
  Log("cuMemHostUnregister", device, Range(address, 0));
  if (const Result latched = Latched()) return latched;
  return Unregister(reinterpret_cast<uintptr_t>(address));
}

EXPORT Result cuGetErrorName(Result code, const char** name) {
  for (const Name& known : kNames) {
    if (known.code == code) return *name = known.name, kSuccess;
  }
  return *name = nullptr, kInvalidValue;
}

EXPORT Result cuGetErrorString(Result code, const char** text) {
  for (const Name& known : kNames) {
    if (known.code == code) return *text = known.text, kSuccess;
  }
  return *text = nullptr, kInvalidValue;
}

// NVML: the same devices, and the processes that the configuration names: "processes": [{"device", "pid", "bytes"}].
struct FakeNvmlProcess {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

EXPORT int nvmlInit_v2() { return 0; }
EXPORT int nvmlShutdown() { return 0; }
EXPORT int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  return CopyText(text, static_cast<int>(size), "simulated");
}
EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(Driver::Get().config["devices"].items.size());
  return 0;
}
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(static_cast<uintptr_t>(index) + 1);
  return 0;
}
EXPORT int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  const int number = static_cast<int>(reinterpret_cast<uintptr_t>(device)) - 1;
  return CopyText(text, static_cast<int>(size), Driver::Get().DeviceText(number, "uuid"));
}
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, FakeNvmlProcess* processes) {
  const int number = static_cast<int>(reinterpret_cast<uintptr_t>(device)) - 1;
  unsigned found = 0;
  for (const Json& process : Driver::Get().config["processes"].items) {
    if (static_cast<int>(process["device"].NumberOr(-1)) != number || found == *count) continue;
    processes[found++] = {static_cast<unsigned>(process["pid"].NumberOr(0)),
                          static_cast<unsigned long long>(process["bytes"].NumberOr(0)), 0, 0};
  }
  *count = found;
  return 0;
}
