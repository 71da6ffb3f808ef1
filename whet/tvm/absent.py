"""Names of TVM's that are not here, and the way out: one table, a row of names for each module."""

from __future__ import annotations

_DERIVED = "whet.create_task(outputs=[C], target=...) derives a space, whet.tune searches it"
_GRAPHS = (
    "there are no models and graphs: whet.create_task, whet.tune and whet.build take operators"
)
_PACKED = "te.extern with tir.call_packed calls any function given to whet.register_func"
_TUNE = "whet.tune(task, trials=1000, log='whet.db')"
_OPTIONS = f"{_TUNE[:-1]}, options=whet.MeasureOptions(...)): it builds and runs in processes"
_LOG = "the log is a database: whet.TuningLog('whet.db'), `whet best` on the command line"
_BEST = "with whet.apply_best('whet.db'), whet.Target('llvm'): ..., or whet.build(task, log=...)"
_HISTORY = "a search learns from the log's other shapes, operators and machines by itself"
_RELAY = "there is no Relay: whet.create_task(name, args=..., target=...) makes a task"
_SPACE = "its classes are in whet.search_spaces"

ABSENT: dict[str, dict[str, str]] = {
    "": {
        "auto_scheduler": _DERIVED,
        "meta_schedule": _DERIVED,
        "micro": "there is no microTVM: module.save('kernel.o') and export_library make objects",
        "relax": _GRAPHS,
        "relay": _GRAPHS,
        "rpc": "whet.tune(task, workers='ray://host:port') measures on other machines",
    },
    "te": {
        "trace": "tir.call_packed within an expression hands a value to a registered function; "
        "schedule.trace is the record of a schedule's primitives",
        "scan": "it is planned; te.extern runs a recurrence that tir.ir_builder writes",
        "ScanOp": "it comes with scan",
        "gradient": "it is planned; write the derivative as a computation of its own",
        "hybrid": "it is planned; te.extern and tir.ir_builder write loops by hand",
        "HybridOp": "it comes with hybrid.script",
        "create_prim_func": 'it is planned; lower(schedule, arguments)["main"] is a loop function',
        "decl_tensor_intrin": "it is planned, with tensorize",
        "TensorComputeOp": "it comes with tensorize",
        "AXIS_SEPARATOR": "it comes with transform_layout",
        "SpecializedCondition": "it will not come; a template with a knob says the same",
    },
    "te.Stage": {
        "tensorize": "it is planned, with tensor intrinsics; for products of int8 that are summed "
        "up four at a time in an unrolled loop, CUDA's dp4a is used without being asked for",
        "rolling_buffer": "it is planned; compute_at computes again what two steps share",
        "prefetch": "it is planned; double_buffer fetches shared memory a step ahead",
        "transform_layout": "it is planned; write the stage with its axes in the other order",
        "set_axis_separators": "it comes with transform_layout",
    },
    "te.Schedule": {
        "create_group": "it is planned; call compute_at for each stage",
    },
    "tir": {
        "ret": "a kernel returns its status; what it computes is stored in an output",
        "call_llvm_intrin": "LLVM's intrinsics have no names here; use the functions of te, "
        "tir.call_intrin or tir.call_extern",
        "call_llvm_pure_intrin": "LLVM's intrinsics have no names here; use the functions of te, "
        "tir.call_intrin or tir.call_pure_extern",
        "Block": "there are no blocks of TensorIR; te schedules make loops",
        "BlockRealize": "there are no blocks of TensorIR; te schedules make loops",
        "BlockDependenceInfo": "there are no blocks of TensorIR; te schedules make loops",
        "Schedule": "there is no schedule of TensorIR; te.create_schedule makes one of te",
        "ScheduleError": "there is no schedule of TensorIR; errors of te's are whet.ScheduleError",
        "TensorIntrin": "tensorize is planned",
        "Prefetch": "prefetch is planned",
        "IndexMap": "it comes with transform_layout",
        "Layout": "it comes with transform_layout",
        "BijectiveLayout": "it comes with transform_layout",
        "layout": "it comes with transform_layout",
        "Any": "a size that is not known is te.size_var",
        "BufferRegion": "it is a part of blocks, which are not here; a part is a BufferView",
        "MatchBufferRegion": "it is a part of blocks, which are not here",
        "ProducerStore": "te makes BufferStore at once",
        "ProducerRealize": "te makes Allocate at once",
        "BufferRealize": "te makes Allocate at once",
    },
    "ir": {
        "save_json": "loop IR is not stored; a schedule is stored as its trace (schedule.trace), a "
        "compiled module with export_library",
        "load_json": "loop IR is not stored; a schedule is replayed from its trace, a compiled "
        "module read with runtime.load_module",
        "Array": "lists and tuples of Python take its place",
        "Map": "dictionaries of Python take its place",
        "PointerType": 'an address is a variable, tir.Var(name, "handle"); buffers have dtypes',
        "PrimType": 'a type is its name, e.g. "float32"',
        "TupleType": "functions return nothing",
        "FuncType": "functions have parameters, and no type besides",
        "Node": "nodes are instances of tir.PrimExpr and tir.Stmt",
        "make_node": "nodes are made by their classes in tir",
        "Span": "nodes know no place in a source text",
        "SourceName": "nodes know no place in a source text",
        "TVMError": "it is whet.TVMError",
        "BaseFunc": "functions are tir.PrimFunc",
        "RelayExpr": "there is no Relay",
        "register_op": "an intrinsic needs no registration: tir.call_intrin names it",
    },
    "error": {
        "RPCError": "there is no RPC: a lost worker of `whet.tune` is a MeasureError",
        "RPCSessionTimeoutError": "there is no RPC: a lost worker of `whet.tune` is a MeasureError",
        "register_error": "raise a WhetError, or a child of it",
    },
    "contrib": {
        "clang": "register_func and tir.call_packed, or call_extern with a linked C function",
        "cublas": _PACKED,
        "cudnn": _PACKED,
        "graph_executor": "there is no Relay: whet.build makes a module of functions",
        "miopen": _PACKED,
        "mkl": f"whet.contrib.cblas.matmul, or {_PACKED}",
        "ndk": "export_library(path, cc='aarch64-linux-android33-clang')",
        "nnpack": _PACKED,
        "nvcc": "target kind 'cuda' makes CUDA C text: module.imported_modules[0].get_source()",
        "random": f"numpy fills arrays; in a kernel, {_PACKED}",
        "rocblas": _PACKED,
        "rpc": "whet.tune(task, workers='ray://host:port') measures on other machines",
        "sort": _PACKED,
        "tar": "module.export_library('name.tar')",
        "xcode": "there is no generator for Metal",
    },
    "testing": {
        "exclude_targets": "parametrize_targets(...) names those that are wanted",
        "fixture": "pytest.fixture",
        "known_failing_targets": "pytest.mark.xfail",
        "parameters": "pytest.mark.parametrize(('a', 'b'), [(1, 2), (3, 4)])",
        "requires_metal": "there is no generator for Metal",
        "requires_opencl": "there is no generator for OpenCL",
        "requires_rocm": "there is no generator for AMD's GPUs",
        "requires_vulkan": "there is no generator for Vulkan",
        "uses_gpu": "requires_gpu",
    },
    "autotvm": {
        "ApplyHistoryBest": _BEST,
        "DispatchContext": _BEST,
        "FallbackConfigEntity": "cfg.is_fallback, cfg.fallback_split(...) inside a template",
        "FallbackContext": "without a record a template gets its default config: cfg.is_fallback",
        "GridSearchTuner": "autotvm.tuner.GridSearchTuner",
        "GATuner": "autotvm.tuner.GATuner",
        "MeasureErrorNo": "a trial's status is a word: 'ok', 'timeout', ...; its error is kept",
        "MeasureInput": _OPTIONS,
        "MeasureResult": _OPTIONS,
        "RPCRunner": f"{_TUNE[:-1]}, workers='ray://host:port')",
        "RandomTuner": "autotvm.tuner.RandomTuner",
        "XGBTuner": "autotvm.tuner.XGBTuner",
        "apply_history_best": _BEST,
        "create_measure_batch": _OPTIONS,
        "feature": "task.config_space.features(configs) is what the cost model sees",
        "graph_tuner": "there is no Relay",
        "measure": _OPTIONS,
        "record": _LOG,
        "register_topi_compute": "@whet.template('name') above a function of the whole schedule",
        "register_topi_schedule": "@whet.template('name') above a function of the whole schedule",
        "tophub": "there is no public log; " + _BEST,
    },
    "autotvm.task": {
        "DispatchContext": "with whet.apply_best('whet.db'): ...",
        "args_to_workload": "a task has its workload: task.workload",
        "dispatcher": "with whet.apply_best('whet.db'): ...",
        "extract_from_multiple_program": _RELAY,
        "extract_from_program": _RELAY,
        "space": _SPACE,
    },
    "autotvm.tuner": {
        "has_next": "tune() ends by itself: result.state",
        "load_history": f"{_HISTORY}: log_to_file(...) names the log",
        "next_batch": "tune() asks the sampler: whet.tune(task, sampler=...)",
        "reset": "a search goes on from its log: give another log to begin anew",
        "set_error_threshold": "a search in which nothing works ends with a MeasureError",
        "update": "whet.tune(task, sampler=...) takes any sampler of Optuna",
    },
}
"""Module by its name below ``whet``, or a class by its name in it -> name -> the way out."""
