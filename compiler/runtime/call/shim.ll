declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)

define ptr @shim(ptr %self, ptr %args, i64 %n, ptr %names) {
$checks
  br i1 $large, label %long, label %short
short:
  %quick = $kernel
  br label %finish
long:
  %state = call ptr @PyEval_SaveThread()
  %slowly = $kernel
  call void @PyEval_RestoreThread(ptr %state)
  br label %finish
finish:
  %result = phi i32 [ %quick, %short ], [ %slowly, %long ]
  %good = icmp eq i32 %result, 0
  br i1 %good, label %done, label %bad
bad:
  %wide = sext i32 %result to i64
  %code = call ptr @PyLong_FromLong(i64 %wide)
  %cell = alloca ptr
  store ptr %code, ptr %cell
  %explain = inttoptr i64 $failed to ptr
  %raised = call ptr @PyObject_Vectorcall(ptr %explain, ptr %cell, i64 1, ptr null)
  ret ptr %raised
done:
$none
failed:
  ret ptr null
slow:
  %whole = inttoptr i64 $slow to ptr
  %other = call ptr @PyObject_Vectorcall(ptr %whole, ptr %args, i64 %n, ptr %names)
  ret ptr %other
}
