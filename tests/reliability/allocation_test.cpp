/// Memory that runs out at any moment is an error with a sentence, or an exception that run_app turns into
/// one; never a crash. This program's operator new and aligned_alloc, which libdif and the plug-ins use as
/// well, fail on request.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <new>

#include "base/error.h"
#include "cli/exit_status.h"
#include "ir/builder.h"
#include "ops/add/add.op.h"
#include "ops/mul_scalar/mul_scalar.op.h"
#include "ops/silu/silu.op.h"
#include "pipelines/text_to_image.h"
#include "runtime/session.h"
#include "tests/support/paths.h"

namespace {

enum class Fail { kOnce, kFromThenOn };

std::atomic<std::int64_t> allocations = 0;
std::atomic<std::int64_t> fail_at = std::numeric_limits<std::int64_t>::max();
std::atomic<bool> fail_for_good = false;

bool out_of_memory() {
  const std::int64_t number = allocations.fetch_add(1) + 1;
  return number == fail_at || (number > fail_at && fail_for_good);
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (out_of_memory()) return nullptr;
  void* memory = nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(bytes == 0 ? 1 : bytes);
  return posix_memalign(&memory, alignment, bytes == 0 ? 1 : bytes) == 0 ? memory : nullptr;
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const memory = allocate(bytes, alignment);
  if (memory != nullptr) return memory;
  if (const std::new_handler handler = std::get_new_handler()) handler();
  throw std::bad_alloc();
}

}  // namespace

// The compiler takes the default operators for granted and warns of free() on what new gave.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t bytes) {
  return allocate_or_throw(bytes, 1);
}
void* operator new[](std::size_t bytes) {
  return allocate_or_throw(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, 1);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, 1);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return allocate(bytes, alignment < sizeof(void*) ? sizeof(void*) : alignment);
}

namespace dif::test {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// What `body` ends with when allocation `nth` fails; an exception counts as what run_app makes of it.
template <class Body>
Status outcome(Body&& body, std::int64_t nth, Fail how) {
  bool threw = false;
  Status status = ok();
  fail_for_good = how == Fail::kFromThenOn;
  allocations = 0;
  fail_at = nth;
  try {
    status = body();
  } catch (const std::bad_alloc&) {
    threw = true;
  }
  fail_at = kNever;
  return threw ? Status(fail(ErrorCode::kOutOfMemory, "thrown")) : status;
}

/// The same in a child process: its exit status, or 128 + the signal that ended it.
template <class Body>
int exit_status_of(Body&& body, std::int64_t nth, Fail how) {
  const pid_t child = fork();
  if (child == 0) {
    cli::end_in_order_on_terminate();
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(99);
    const Status status = outcome(body, nth, how);
    if (!status && status.error().code != ErrorCode::kOutOfMemory) std::puts(status.error().message.c_str());
    std::fflush(stdout);
    _exit(status ? 0 : cli::exit_status(status.error().code));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Fails the allocations first, first + stride, ... of `body` and wants success or OutOfMemory from each.
template <class Body>
void fail_each_allocation(Body&& body, std::int64_t stride) {
  const Status whole = outcome(body, kNever, Fail::kOnce);
  ASSERT_TRUE(whole) << whole.error().message;
  const std::int64_t total = allocations;
  ASSERT_GT(total, 50);
  std::printf("%lld allocations, one in %lld fails\n", static_cast<long long>(total),
              static_cast<long long>(stride));
  std::fflush(stdout);
  for (const Fail how : {Fail::kOnce, Fail::kFromThenOn}) {
    std::int64_t failed = 0;
    for (std::int64_t nth = 1; nth <= total; nth += stride) {
      const int status = exit_status_of(body, nth, how);
      failed += status == 0 ? 0 : 1;
      ASSERT_TRUE(status == 0 || status == 3)
          << "allocation " << nth << (how == Fail::kOnce ? "" : " and all that follow") << ": exit status "
          << status;
    }
    EXPECT_GT(failed, total / stride / 2) << "most allocations are needed";
  }
}

Status run_small_program(const std::string& backend) {
  ir::Builder b("small");
  const ir::TensorType type = {DType::kF32, {2, 3}};
  const ir::Value x = b.input("x", type), w = b.constant("w", type);
  const ir::Value step = b.input("step", {DType::kI32, {1}});
  (void)step;
  b.output("y", ops::silu(b, ops::add(b, ops::mul_scalar(b, x, 3), w)));
  DIF_ASSIGN(const ir::Program program, b.finish());
  DIF_ASSIGN(auto library, runtime::BackendLibrary::load_by_name(backend));
  DIF_ASSIGN(auto context, runtime::Context::create(std::move(library), {}));
  std::vector<float> weights(6, 0.5f), input(6, 1.0f), output(6);
  const std::vector<runtime::ConstantBinding> constants = {{weights.data(), weights.size() * sizeof(float)}};
  DIF_ASSIGN(auto prepared, runtime::PreparedProgram::prepare(context, program, constants));
  DIF_TRY(prepared->report());
  std::int32_t number = 0;
  const std::vector<runtime::Binding> inputs = {
      runtime::Binding::of(type, std::as_writable_bytes(std::span(input))),
      runtime::Binding::of({DType::kI32, {1}}, std::as_writable_bytes(std::span(&number, 1)))};
  const std::vector<runtime::Binding> outputs = {
      runtime::Binding::of(type, std::as_writable_bytes(std::span(output)))};
  DIF_TRY(prepared->run(inputs, outputs));
  runtime::LoopOptions loop;
  loop.n_steps = 2;
  loop.step_input = 1;
  loop.carries = {{0, 0}};
  loop.wants_state = true;
  std::vector<std::byte> state;
  loop.on_step = [&](const runtime::StepEvent& event) {
    state.assign(event.state.begin(), event.state.end());
    return runtime::AfterStep::kContinue;
  };
  return prepared->run_loop(inputs, outputs, loop);
}

TEST(NoMemory, AtAnyAllocationOfASmallProgramIsAnErrorOnTheReferenceBackend) {
  fail_each_allocation([] { return run_small_program("reference"); }, 1);
}

TEST(NoMemory, AtAnyAllocationOfASmallProgramIsAnErrorOnTheNullBackend) {
  fail_each_allocation([] { return run_small_program("null"); }, 1);
}

TEST(NoMemory, AnywhereInAPictureIsAnError) {
  const auto draw = []() -> Status {
    DIF_ASSIGN(const auto model, frontends::open_model(model_dir()));
    DIF_ASSIGN(auto library, runtime::BackendLibrary::load_by_name("reference"));
    DIF_ASSIGN(auto context, runtime::Context::create(std::move(library), {}));
    const GenerationSettings settings{
        .prompt = "x", .width = 16, .height = 16, .steps = 1, .guidance = 1, .text_tokens = 8};
    DIF_ASSIGN(const auto pipeline, TextToImage::create(*model, std::move(context), settings, {}));
    DIF_TRY(pipeline->draw(1));
    return ok();
  };
  ASSERT_TRUE(outcome(draw, kNever, Fail::kOnce));
  fail_each_allocation(draw, std::max<std::int64_t>(1, allocations / 241));
}

}  // namespace
}  // namespace dif::test
