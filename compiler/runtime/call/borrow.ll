declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyErr_Occurred()
declare i32 @PyErr_ExceptionMatches(ptr)
declare void @PyErr_Clear()
declare void @Py_DecRef(ptr)

define i32 @borrow(ptr %item, ptr %view, i32 %dtype, i64 %below, ptr %descr, i1 %written) {
begin:
  %tensor = alloca [6 x i64], align 8
  %cell = alloca ptr
  %type.at = getelementptr i8, ptr %item, i64 $type
  %type = load i64, ptr %type.at
  br label %search

; the entry of the object's type in the table
search:
  %k = phi i64 [ 0, %begin ], [ %next, %other ]
  %at = mul i64 %k, $entry_bytes
  %entry = getelementptr i8, ptr inttoptr (i64 $table to ptr), i64 %at
  %known = load i64, ptr %entry
  %same = icmp eq i64 %known, %type
  br i1 %same, label %found, label %other
other:
  %next = add i64 %k, 1
  %left.over = icmp ult i64 %next, $capacity
  br i1 %left.over, label %search, label %no

; requires_grad must be False
found:
  %grad.at = getelementptr i8, ptr %entry, i64 $grad_name
  %grad = load ptr, ptr %grad.at
  %has.grad = icmp ne ptr %grad, null
  br i1 %has.grad, label %gradient, label %sign
gradient:
  %required = call ptr @PyObject_GetAttr(ptr %item, ptr %grad)
  %no.answer = icmp eq ptr %required, null
  br i1 %no.answer, label %failed, label %gradient.given
gradient.given:
  call void @Py_DecRef(ptr %required) ; False itself is never freed
  %not.required = icmp eq ptr %required, inttoptr (i64 $false to ptr)
  br i1 %not.required, label %sign, label %no

; is_neg() must be False
sign:
  %neg.at = getelementptr i8, ptr %entry, i64 $is_neg
  %neg = load ptr, ptr %neg.at
  %has.neg = icmp ne ptr %neg, null
  br i1 %has.neg, label %negated, label %access
negated:
  store ptr %item, ptr %cell
  %is.neg = call ptr @PyObject_Vectorcall(ptr %neg, ptr %cell, i64 1, ptr null)
  %no.sign = icmp eq ptr %is.neg, null
  br i1 %no.sign, label %failed, label %sign.given
sign.given:
  call void @Py_DecRef(ptr %is.neg)
  %not.negated = icmp eq ptr %is.neg, inttoptr (i64 $false to ptr)
  br i1 %not.negated, label %access, label %no

; the managed form of an array that is written, which alone has flags
access:
  br i1 %written, label %manage, label %describe
manage:
  %managed_from.at = getelementptr i8, ptr %entry, i64 $managed_from
  %managed_from = load ptr, ptr %managed_from.at
  %managed.code = call i32 %managed_from(ptr %item, ptr %cell)
  %managed.good = icmp eq i32 %managed.code, 0
  br i1 %managed.good, label %managed, label %failed
managed:
  %capsule = load ptr, ptr %cell
  %version = load i32, ptr %capsule
  %flags.at = getelementptr i8, ptr %capsule, i64 24
  %flags = load i64, ptr %flags.at
  %deleter.at = getelementptr i8, ptr %capsule, i64 16
  %deleter = load ptr, ptr %deleter.at
  %owned = icmp ne ptr %deleter, null
  br i1 %owned, label %give_back, label %given_back
give_back:
  call void %deleter(ptr %capsule)
  br label %given_back
given_back:
  %version.known = icmp eq i32 %version, $major
  %read.only = and i64 %flags, $read_only
  %writes = icmp eq i64 %read.only, 0
  %may.write = and i1 %version.known, %writes
  br i1 %may.write, label %describe, label %no

; the tensor: this machine's memory, the dtype
describe:
  %tensor_from.at = getelementptr i8, ptr %entry, i64 $tensor_from
  %tensor_from = load ptr, ptr %tensor_from.at
  %tensor.code = call i32 %tensor_from(ptr %item, ptr %tensor)
  %tensor.good = icmp eq i32 %tensor.code, 0
  br i1 %tensor.good, label %look, label %failed
look:
  %device.at = getelementptr i8, ptr %tensor, i64 $dl_device
  %device = load i32, ptr %device.at
  %cpu = icmp eq i32 %device, $dl_cpu
  %pinned = icmp eq i32 %device, $dl_pinned
  %here = or i1 %cpu, %pinned
  %word.at = getelementptr i8, ptr %tensor, i64 $dl_code
  %word = load i32, ptr %word.at
  %same.dtype = icmp eq i32 %word, %dtype
  %fits = and i1 %here, %same.dtype
  br i1 %fits, label %compact, label %no

; each stride is the number of elements behind its dimension
compact:
  %ndim.at = getelementptr i8, ptr %tensor, i64 $dl_ndim
  %ndim = load i32, ptr %ndim.at
  %shape.at = getelementptr i8, ptr %tensor, i64 $dl_shape
  %shape = load ptr, ptr %shape.at
  %strides.at = getelementptr i8, ptr %tensor, i64 $dl_strides
  %strides = load ptr, ptr %strides.at
  %packed = icmp eq ptr %strides, null
  %rank = sext i32 %ndim to i64
  br label %dims
dims:
  %left = phi i64 [ %rank, %compact ], [ %d, %dim_done ]
  %count = phi i64 [ 1, %compact ], [ %counted, %dim_done ]
  %row_major = phi i1 [ true, %compact ], [ %still, %dim_done ]
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %dim, label %dims_done
dim:
  %d = sub i64 %left, 1
  %extent.at = getelementptr i64, ptr %shape, i64 %d
  %extent = load i64, ptr %extent.at
  %counted = mul i64 %count, %extent
  br i1 %packed, label %dim_done, label %stepped
stepped:
  %stride.at = getelementptr i64, ptr %strides, i64 %d
  %stride = load i64, ptr %stride.at
  br label %dim_done
dim_done:
  %step = phi i64 [ %count, %dim ], [ %stride, %stepped ]
  %right = icmp eq i64 %step, %count
  %single = icmp eq i64 %extent, 1
  %any = or i1 %right, %single
  %still = and i1 %row_major, %any
  br label %dims

; data, aligned
dims_done:
  %empty = icmp eq i64 %count, 0
  %data.at = getelementptr i8, ptr %tensor, i64 $dl_data
  %data = load i64, ptr %data.at
  %offset.at = getelementptr i8, ptr %tensor, i64 $dl_byte_offset
  %offset = load i64, ptr %offset.at
  %address = add i64 %data, %offset
  %there = icmp ne i64 %address, 0
  %some = or i1 %there, %empty
  %low = and i64 %address, %below
  %aligned = icmp eq i64 %low, 0
  %in.order = or i1 %row_major, %empty
  %usable = and i1 %in.order, %some
  %takes = and i1 %usable, %aligned
  br i1 %takes, label %write, label %no
write:
  %view.data = getelementptr i8, ptr %view, i64 $np_data
  store i64 %address, ptr %view.data
  %view.nd = getelementptr i8, ptr %view, i64 $np_nd
  store i32 %ndim, ptr %view.nd
  %view.dimensions = getelementptr i8, ptr %view, i64 $np_dimensions
  store ptr %shape, ptr %view.dimensions
  %view.descr = getelementptr i8, ptr %view, i64 $np_descr
  store ptr %descr, ptr %view.descr
  %view.flags = getelementptr i8, ptr %view, i64 $np_flags
  store i32 $array_flags, ptr %view.flags
  ret i32 1

failed:
  %error = call ptr @PyErr_Occurred()
  %unset = icmp eq ptr %error, null
  br i1 %unset, label %no, label %set
set:
  %usual = call i32 @PyErr_ExceptionMatches(ptr inttoptr (i64 $exception to ptr))
  %goes_on = icmp ne i32 %usual, 0
  br i1 %goes_on, label %forget, label %raised
forget:
  call void @PyErr_Clear()
  br label %no
raised:
  ret i32 -1
no:
  ret i32 0
}
