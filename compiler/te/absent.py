"""Names of TVM's ``te`` that are not here: what does their work, or what they come with."""

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
