/* The plug-in interface of Diffusion Compiler backends, in C11. A backend is a shared library that exports
 * one function, `dif_backend_entry`, and executes whole programs. docs/backends.md explains it with an
 * example.
 *
 * Conventions
 *   - Every structure starts with `struct_size`, set by whoever fills it in; a reader uses only the
 *     members that lie within it. Members are only ever appended. Unknown flags are refused.
 *   - Structures of an array stand struct_size bytes apart, the one that the first of them says.
 *   - Functions return DIF_OK or a code below and then write one sentence into the caller's dif_error.
 *     Nothing throws or ends the process. A NULL dif_error is allowed.
 *   - Strings are UTF-8 and end in NUL. Pointers passed in are valid during the call unless said
 *     otherwise.
 *   - One context is used by one thread at a time; several contexts may be used by several threads. */
#ifndef DIF_BACKEND_ABI_H
#define DIF_BACKEND_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A plug-in with another major version is refused. A host accepts any minor version and never calls a
 * function that lies past the plug-in's struct_size. A minor version appends members, or gives a meaning to
 * reserved ones where 0 keeps the old one:
 *   1.1  dif_context_options.flags (was reserved), dif_prepare_options.flags, dif_report.context_... and
 *        n_host_operations
 *   1.2  dif_backend_api.prefers, dif_context_options.weights
 *   1.3  DIF_CONTEXT_PINNED_IO, dif_prepare_options.execution, dif_report.direct_bytes and the counts behind
 *        it
 *   1.4  DIF_PREFERS_JOINED_LINEARS, dif_backend_api.host_allocate and host_release, DIF_RUN_AHEAD,
 *        DIF_LINEAR_SWIGLU, DIF_ATTENTION_AUTOTUNE */
#define DIF_ABI_MAJOR 1
#define DIF_ABI_MINOR 4

#define DIF_MAX_RANK 8

typedef int32_t dif_code;
enum {
  DIF_OK = 0,
  DIF_ERROR_ANSWER_NO = 1,   /* ran, and the answer is no */
  DIF_ERROR_NON_FINITE = 2,  /* NaN or infinity where the caller asked to look for it */
  DIF_ERROR_INVALID = 3,     /* an argument or the program is wrong */
  DIF_ERROR_UNAVAILABLE = 4, /* no driver, device or library; an operation that this backend does not have */
  DIF_ERROR_MEMORY = 5,      /* memory cap, device or host too small */
  DIF_ERROR_INTERNAL = 6,    /* a bug of the backend */
  DIF_ERROR_CANCELLED = 7    /* the cancel callback said so */
};

/* Element types: the numbers of enum class dif::DType (include/dif/dtype.h). */
typedef uint32_t dif_dtype;

/* A caller-owned buffer for one sentence. */
typedef struct dif_error {
  uint32_t struct_size;
  char* text;       /* receives a NUL-terminated sentence, cut at a character boundary when it does not fit */
  size_t text_size; /* bytes of `text` */
  uint32_t operation; /* set by the backend: index of the operation that failed, DIF_NO_OPERATION when none is
                         known */
} dif_error;

#define DIF_NO_OPERATION UINT32_MAX

typedef struct dif_context dif_context;   /* a device with its memory, owned by the backend */
typedef struct dif_prepared dif_prepared; /* a program made ready on a context */
typedef struct dif_value dif_value;       /* a tensor that lives on the device of a context */

enum { DIF_LOG_DEBUG = 0, DIF_LOG_INFO = 1, DIF_LOG_WARNING = 2 };

/* One operation that ran, reported while tracing. */
typedef struct dif_trace_event {
  uint32_t struct_size;
  uint32_t operation;  /* index in the program */
  const char* op_name; /* e.g. "linear" */
  const char* kernel;  /* e.g. "onednn_matmul" */
  uint64_t nanoseconds;
} dif_trace_event;

enum {
  /* Operations that the device's kernels decline may run on the host, with copies of their operands and
   * results in each run; the report counts them. Without this flag such a program is refused in prepare. */
  DIF_CONTEXT_ALLOW_HOST_FALLBACK = 1u,
  /* Copies of weights in layouts of the backend's own are kept in cache_dir and mapped from there, so that
   * processes share them. A backend without such copies ignores it. */
  DIF_CONTEXT_KEEP_WEIGHT_CACHE = 2u,
  /* Host tensors of runs go through pinned memory of the context. A backend without such memory ignores it.
   * Since 1.3. */
  DIF_CONTEXT_PINNED_IO = 4u
};

#define DIF_WEIGHT_CACHE_OFF UINT32_MAX

enum {                          /* in which order weights are admitted to the memory of a device */
       DIF_RESIDENT_SPREAD = 0, /* so that what is streamed lies evenly among the steps */
       DIF_RESIDENT_FIRST = 1,  /* as the steps read them */
       DIF_RESIDENT_LARGEST = 2
};

enum {
  DIF_WEIGHTS_HOST_PINNED = 1u,  /* streamed weights wait in pinned host memory, else in their files */
  DIF_WEIGHTS_SERIAL = 2u,       /* nothing is fetched before it is needed */
  DIF_WEIGHTS_LAZY = 4u,         /* resident weights are fetched before the first run, not in prepare */
  DIF_WEIGHTS_RELEASE_PAGES = 8u /* what was read from a file leaves the page cache */
};

/* How weights reach a device, and which stay there. Nothing here changes results; a backend whose device has
 * no memory of its own ignores it. Since 1.2. */
typedef struct dif_weight_options {
  uint32_t struct_size;
  uint32_t flags;             /* DIF_WEIGHTS_...; unknown ones are refused */
  uint64_t budget_bytes;      /* of device memory for a program and the context, 0 = the memory cap; weights
                                 beyond it are streamed */
  uint64_t least_free_bytes;  /* of device memory: no allocation leaves less for others; 0 = no matter */
  uint32_t order;             /* DIF_RESIDENT_... */
  uint32_t prefetch_distance; /* streamed weights that are fetched ahead of the one in use */
  uint32_t threads;           /* that read files, 0 = chosen */
  uint32_t staging_buffers;   /* of pinned memory, 4 MiB each; 0 = chosen, else at least 2 */
} dif_weight_options;

typedef struct dif_context_options {
  uint32_t struct_size;
  int32_t device;            /* index, 0 = first; one that does not exist is DIF_ERROR_UNAVAILABLE */
  uint32_t threads;          /* host threads, 0 = the CPUs that the process may use */
  uint32_t flags;            /* DIF_CONTEXT_...; unknown ones are refused */
  uint64_t memory_cap_bytes; /* of the device memory that this context may hold, 0 = no cap */
  const char* cache_dir;     /* NULL = keep nothing on disk */
  void* user;                /* handed to the callbacks */
  void (*log)(void* user, int32_t level, const char* sentence); /* may be NULL */
  void (*trace)(void* user, const dif_trace_event* event);      /* NULL = no tracing */
  int32_t (*cancelled)(
      void* user); /* may be NULL; polled at least once per operation or step: non-zero = stop */
  /* Since 1.1. Bound on copies of weights in layouts of the backend's own: 0 = no bound,
   * DIF_WEIGHT_CACHE_OFF = no copies. */
  uint32_t weight_cache_mib;
  uint32_t reserved;                 /* 0 */
  const dif_weight_options* weights; /* since 1.2; NULL = defaults */
} dif_context_options;

typedef struct dif_tensor_type {
  dif_dtype dtype;
  uint32_t rank;
  int64_t dims[DIF_MAX_RANK];
} dif_tensor_type;

/* A constant of the program. The memory stays valid until the program is destroyed, or until the backend
 * calls `release` for it. */
typedef struct dif_constant {
  uint32_t struct_size;
  int32_t fd;           /* a file that holds the same bytes, or -1 */
  uint64_t file_offset; /* of the first byte in `fd` */
  const char* name;
  dif_tensor_type type;
  const void* data; /* read-only, dense, row-major; alignment of the file (may be 1) */
  uint64_t bytes;
} dif_constant;

#define DIF_LINEAR_MEASURED UINT32_MAX
#define DIF_LINEAR_SWIGLU (UINT32_MAX - 1)

/* How the product of one `linear` is computed. Since 1.3. */
typedef struct dif_linear_choice {
  uint32_t struct_size;
  uint32_t operation; /* index in the program */
  uint32_t rank;      /* the algorithm at that place of what the library recommends, 0 = its first;
                         DIF_LINEAR_MEASURED: the fastest of them, measured whether it is known already or not;
                         DIF_LINEAR_SWIGLU: one kernel with the SwiGLU behind it */
  uint32_t warmups, iterations, sessions; /* of a measurement; 0 = the backend's own */
} dif_linear_choice;

enum { /* how an attention library's kernel is found */
       DIF_ATTENTION_DEFAULT = 0,
       DIF_ATTENTION_A = 1,
       DIF_ATTENTION_B = 2,
       DIF_ATTENTION_FALLBACK = 3,
       DIF_ATTENTION_AUTOTUNE = 4 /* the fastest of what all of them find, measured; since 1.4 */
};

enum {
  /* A longer list of algorithms is asked for where they are measured. */
  DIF_EXECUTION_MORE_ALGORITHMS = 1u,
  /* Where memory is bounded, this program takes the least: no weight stays on the device between its runs, so
   * that other programs have more of it. */
  DIF_EXECUTION_STREAM_WEIGHTS = 2u
};

/* Decisions that the caller takes instead of the backend. The program means the same; results may differ by
 * rounding. A choice for an operation that has none is DIF_ERROR_INVALID. Since 1.3. */
typedef struct dif_execution_options {
  uint32_t struct_size;
  uint32_t flags; /* DIF_EXECUTION_...; unknown ones are refused */
  const dif_linear_choice* linears;
  uint32_t n_linears;
  uint32_t attention;                 /* DIF_ATTENTION_... */
  const uint32_t* resident_constants; /* stay on the device, before all others; indexes into `constants` */
  uint32_t n_resident_constants;
  uint32_t reserved; /* 0 */
} dif_execution_options;

enum {
  /* Decide and report, but read no byte of a constant and keep nothing: a run is refused. Since 1.1; a
   * plug-in of version 1.0 is never asked for it. */
  DIF_PREPARE_PLAN_ONLY = 1u
};

typedef struct dif_prepare_options {
  uint32_t struct_size;
  uint32_t n_constants;
  const void* program; /* canonical bytes: a DiffIR FlatBuffer (schemas/difir.fbs) */
  uint64_t program_bytes;
  const dif_constant*
      constants; /* in the order of the program's constant list; names and types must match it */
  void* user;
  void (*release)(void* user, uint32_t constant); /* may be NULL: the backend no longer reads constants[i] */
  uint32_t flags;                                 /* since 1.1 */
  uint32_t reserved;                              /* 0 */
  const dif_execution_options* execution;         /* since 1.3; NULL = defaults */
} dif_prepare_options;

/* What a prepared program holds, in bytes. `details` is a JSON document (kernels per operation and why
 * others declined), owned by the program. The host sets struct_size to what it has room for; the backend
 * writes no member beyond it and leaves it as it is. */
typedef struct dif_report {
  uint32_t struct_size;
  uint32_t n_operations;    /* of the program */
  uint64_t arena_bytes;     /* intermediate values */
  uint64_t workspace_bytes; /* scratch of kernels */
  uint64_t resident_bytes;  /* constants copied or kept on the device, folded ones included */
  uint64_t streamed_bytes;  /* constants read again in every run */
  uint64_t prepacked_bytes; /* constants that kernels hold in a layout of their own */
  uint64_t pinned_host_bytes;
  const char* details;
  /* Since 1.1, of the whole context; 0 where it is not counted. */
  uint64_t context_arena_bytes;     /* the arena that its programs take turns with */
  uint64_t context_workspace_bytes; /* the scratch memory that they take turns with */
  uint64_t context_peak_bytes;      /* the most device memory that it has held at one time */
  uint32_t n_host_operations;       /* that leave the device (DIF_CONTEXT_ALLOW_HOST_FALLBACK) */
  uint32_t reserved;                /* 0 */
  /* Since 1.3, until now; 0 where it is not counted. */
  uint64_t direct_bytes; /* of this program's weights that were read past the page cache */
  /* Of the whole context: calls of the device's allocator; kernels that the host launched, one by one and in
   * recordings; waits of the host until the device has nothing left to do; copies. */
  uint64_t context_allocations;
  uint64_t context_kernel_launches;
  uint64_t context_graph_launches;
  uint64_t context_synchronizations;
  uint64_t context_copies;
} dif_report;

/* An input or output of a run: either host memory or a device value, exactly one of the two. */
typedef struct dif_tensor {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  dif_tensor_type type;
  void* data;       /* host memory: dense, row-major; outputs are written */
  uint64_t bytes;   /* of `data` */
  dif_value* value; /* or: a value of the same context with this type */
} dif_tensor;

enum {
  /* After each operation look for NaN and infinity in its result; stop with DIF_ERROR_NON_FINITE and a
   * sentence that names the operation's index and its largest finite operand. */
  DIF_RUN_CHECK_OPERATIONS = 1u,
  /* `run` alone: it may return before its outputs are complete, where all of them are in memory of
   * host_allocate. They are once the next run of the context returns, which may be of another program, or its
   * program is destroyed. Until then the caller leaves alone inputs and outputs that are in such memory;
   * other memory is free as always. The next call says what failed. Since 1.4. */
  DIF_RUN_AHEAD = 2u
};

typedef struct dif_run_options {
  uint32_t struct_size;
  uint32_t flags;
  const dif_tensor* inputs; /* in the order of the program's inputs */
  uint32_t n_inputs;
  uint32_t n_outputs;
  dif_tensor* outputs; /* in the order of the program's outputs */
} dif_run_options;

/* One finished step of run_loop. */
typedef struct dif_step_event {
  uint32_t struct_size;
  uint32_t step;
  uint32_t all_finite; /* 0 when a carried output holds NaN or infinity */
  uint32_t reserved;
  const void*
      carried; /* host copy of carried output 0 when `wants_state` was set, else NULL; valid in the call */
  uint64_t carried_bytes;
} dif_step_event;

typedef struct dif_carry {
  uint32_t output; /* index of an output whose value becomes ... */
  uint32_t input;  /* ... this input of the next step (same type) */
} dif_carry;

/* Runs the program for step = first_step .. first_step + n_steps - 1. The step number is written into an
 * i32 [1] input. Outputs receive the values of the last step. */
typedef struct dif_loop_options {
  uint32_t struct_size;
  uint32_t flags;
  dif_run_options run;
  uint32_t first_step;
  uint32_t n_steps;
  uint32_t step_input; /* index of the i32 [1] input */
  uint32_t n_carries;
  const dif_carry* carries;
  uint32_t wants_state; /* 1: step events carry a host copy of carried output 0 */
  uint32_t reserved;
  void* user;
  /* Called after each step; non-zero = stop with DIF_ERROR_CANCELLED (DIF_ERROR_NON_FINITE when all_finite
   * was 0). */
  int32_t (*on_step)(void* user, const dif_step_event* event);
} dif_loop_options;

enum {
  /* Images run faster with channels last: conv2d, group_norm and upsample_nearest with `channels_last`. */
  DIF_PREFERS_CHANNELS_LAST = 1u,
  /* A 3x3 convolution of an image that is upsampled by 2, with channels last, runs faster as four 2x2 ones of
   * the small image, whose weights are sums: the result differs by rounding. */
  DIF_PREFERS_FOLDED_UPSAMPLING = 2u,
  /* A product that is read by slices of its columns stays one: kernels read the slices where they lie. */
  DIF_PREFERS_JOINED_LINEARS = 4u
};

typedef struct dif_backend_api {
  uint32_t struct_size;
  uint16_t abi_major;
  uint16_t abi_minor;
  const char* name;    /* "cpu" */
  const char* version; /* of the plug-in, for people */

  /* One JSON document about devices and libraries found, for difprobe and doctor; works without a device.
   * The text belongs to the library. */
  dif_code (*probe)(const char** json, dif_error* error);

  dif_code (*context_create)(const dif_context_options* options, dif_context** context, dif_error* error);
  void (*context_destroy)(dif_context* context); /* after everything made from it */

  dif_code (*prepare)(dif_context* context, const dif_prepare_options* options, dif_prepared** prepared,
                      dif_error* error);
  void (*prepared_destroy)(dif_prepared* prepared);
  dif_code (*report)(const dif_prepared* prepared, dif_report* report, dif_error* error);

  /* Both return when the outputs are complete (but for DIF_RUN_AHEAD). */
  dif_code (*run)(dif_prepared* prepared, const dif_run_options* options, dif_error* error);
  dif_code (*run_loop)(dif_prepared* prepared, const dif_loop_options* options, dif_error* error);

  /* Values pass tensors between programs of one context without the host. */
  dif_code (*value_create)(dif_context* context, const dif_tensor_type* type, dif_value** value,
                           dif_error* error);
  void (*value_destroy)(dif_value* value);
  dif_code (*value_write)(dif_value* value, const void* data, uint64_t bytes, dif_error* error);
  dif_code (*value_read)(const dif_value* value, void* data, uint64_t bytes, dif_error* error);

  /* Since 1.2. DIF_PREFERS_...: what a host may do to a program before it is prepared. A host ignores bits
   * that it does not know. */
  uint32_t prefers;
  uint32_t reserved; /* 0 */

  /* Since 1.4; NULL: this backend has no such memory. Host memory that the device copies from and to by
   * itself, aligned to pages: inputs and outputs that lie in it are not copied on the host.
   * DIF_ERROR_UNAVAILABLE: on this device other memory serves as well. dif_report.pinned_host_bytes counts
   * it. */
  dif_code (*host_allocate)(dif_context* context, uint64_t bytes, void** memory, dif_error* error);
  void (*host_release)(dif_context* context, void* memory);
} dif_backend_api;

/* Exported by the plug-in. Returns NULL when it cannot serve a host of that major version. The structure
 * lives as long as the library. */
typedef const dif_backend_api* (*dif_backend_entry_function)(uint16_t host_abi_major,
                                                             uint16_t host_abi_minor);

#if defined(_WIN32)
#define DIF_BACKEND_EXPORT __declspec(dllexport)
#else
#define DIF_BACKEND_EXPORT __attribute__((visibility("default")))
#endif

#ifdef DIF_BACKEND_IMPLEMENTATION
DIF_BACKEND_EXPORT const dif_backend_api* dif_backend_entry(uint16_t host_abi_major, uint16_t host_abi_minor);
#endif

#ifdef __cplusplus
}
#endif

#endif /* DIF_BACKEND_ABI_H */
