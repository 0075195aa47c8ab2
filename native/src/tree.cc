// The tree calls as JavaScript sees them. Each works on a duplicate of the caller's descriptor, so that
// closing that one meanwhile can't redirect a removal to whatever gets its number next.
#include "tree.h"

#include <fcntl.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "args.h"
#include "descriptor.h"
#include "exports.h"
#include "jobs.h"
#include "names.h"
#include "stat-value.h"

namespace weightroom {
namespace {

// When duplicating fails the job fails with it: an asynchronous call rejects instead of throwing.
class HeldDirectory {
 public:
  explicit HeldDirectory(int fd)
      : fd_(std::make_shared<Descriptor>(::fcntl(fd, F_DUPFD_CLOEXEC, 0))), error_(errno) {}

  int Get() const {
    if (!fd_->Open()) throw Failure{error_, "fcntl"};
    return fd_->Get();
  }

 private:
  std::shared_ptr<Descriptor> fd_;
  int error_;
};

napi_value EntryValue(napi_env env, const ListedEntry& entry) {
  napi_value object = nullptr;
  napi_create_object(env, &object);
  napi_set_named_property(env, object, "name", NameValue(env, entry.name));
  napi_set_named_property(env, object, "stat", StatValue(env, entry.stat));
  SetNumber(env, object, "bytes", static_cast<double>(entry.sums.bytes));
  SetNumber(env, object, "allocatedBytes", static_cast<double>(entry.sums.allocated_bytes));
  SetNumber(env, object, "freeableBytes", static_cast<double>(entry.sums.freeable_bytes));
  SetNumber(env, object, "files", static_cast<double>(entry.sums.files));
  SetBigInt(env, object, "signature", entry.sums.signature);
  return object;
}

// What was listed and not yet taken. Owned by the function that gives it out.
struct Listing {
  std::vector<ListedEntry> entries;
  size_t taken = 0;
};

// take(most): the next entries as objects; none when all were taken. In pieces, because ten thousand objects
// at once hold up everybody else on the environment's thread.
napi_value Take(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value argument = nullptr;
  void* data = nullptr;
  napi_get_cb_info(env, info, &count, &argument, nullptr, &data);
  uint32_t most = 0;
  if (napi_get_value_uint32(env, argument, &most) != napi_ok) {
    napi_throw_type_error(env, nullptr, "most must be a number");
    return nullptr;
  }
  auto& [entries, taken] = *static_cast<Listing*>(data);
  const size_t end = std::min(entries.size(), taken + most);
  napi_value array = nullptr;
  napi_create_array_with_length(env, end - taken, &array);
  for (uint32_t i = 0; taken < end; i++, taken++) {
    // Some ten handles each.
    napi_handle_scope scope = nullptr;
    napi_open_handle_scope(env, &scope);
    napi_set_element(env, array, i, EntryValue(env, entries[taken]));
    napi_close_handle_scope(env, scope);
  }
  if (taken == entries.size()) entries = {}, taken = 0;
  return array;
}

napi_value TakeFunction(napi_env env, std::vector<ListedEntry>& entries) {
  auto listing = std::make_unique<Listing>(Listing{std::move(entries), 0});
  napi_value take = nullptr;
  if (napi_create_function(env, "take", NAPI_AUTO_LENGTH, Take, listing.get(), &take) != napi_ok) return nullptr;
  const auto release = [](napi_env, void* data, void*) { delete static_cast<Listing*>(data); };
  if (napi_add_finalizer(env, take, listing.get(), release, nullptr, nullptr) != napi_ok) return nullptr;
  listing.release();
  return take;
}

napi_value NumberValue(napi_env env, uint64_t number) {
  napi_value value = nullptr;
  napi_create_double(env, static_cast<double>(number), &value);
  return value;
}

Napi::Value List(const Napi::CallbackInfo& info) {
  const HeldDirectory directory(DescriptorArg(info[0], "directory"));
  return {info.Env(), RunJob(info.Env(), {}, [directory] { return ListTree(directory.Get()); }, TakeFunction)};
}

Napi::Value Sum(const Napi::CallbackInfo& info) {
  const HeldDirectory directory(DescriptorArg(info[0], "directory"));
  return {info.Env(), RunJob(info.Env(), {}, [directory] { return TreeBytes(directory.Get()); }, NumberValue)};
}

Napi::Value Remove(const Napi::CallbackInfo& info) {
  const int fd = DescriptorArg(info[0], "directory");
  const std::string name = NameArg(info[1], "name");
  const HeldDirectory directory(fd);
  return {info.Env(), RunJob(info.Env(), {}, [directory, name] { RemoveTree(directory.Get(), name); })};
}

}  // namespace

void ExportTrees(Napi::Object exports) {
  Export<List>(exports, "listTree");
  Export<Sum>(exports, "treeBytes");
  Export<Remove>(exports, "removeTree");
}

}  // namespace weightroom
