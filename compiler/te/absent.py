"""Names of TVM's ``te``, its schedules and its stages that are not here: what does their work."""

ABSENT: dict[str, str] = {
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
}

OF_STAGES: dict[str, str] = {
    "tensorize": "it is planned, with tensor intrinsics; for products of int8 that are summed up "
    "four at a time in an unrolled loop, CUDA's dp4a is used without being asked for",
    "rolling_buffer": "it is planned; compute_at computes again what two steps share",
    "prefetch": "it is planned; double_buffer fetches shared memory a step ahead",
    "transform_layout": "it is planned; write the stage with its axes in the other order",
    "set_axis_separators": "it comes with transform_layout",
}

OF_SCHEDULES: dict[str, str] = {
    "create_group": "it is planned; call compute_at for each stage",
}
