$globals
@job_next = internal global i64 0, align 64
@job_n = internal global i64 0, align 64
@job_grain = internal global i64 0
@job_fn = internal global ptr null
@job_ctx = internal global ptr null
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sched_yield()
declare i32 @clock_gettime(i32, ptr)
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i64 @pthread_self()
declare i32 @pthread_getaffinity_np(i64, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare i32 @memcmp(ptr, ptr, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
@caller_core = internal global i32 -1
declare void $pause_name($pause_type)

; op 128: sleep while *word is value; op 129: wake up to value sleepers (both process-private)
define internal i64 @futex(ptr %word, i32 %op, i32 %value) {
  %r = call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i32 %op, i32 %value,
                                    ptr null, ptr null, i32 0)
  ret i64 %r
}

; nanoseconds, of no particular beginning
define internal i64 @clock() {
  %time = alloca { i64, i64 }, align 8
  %z = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %at = getelementptr { i64, i64 }, ptr %time, i32 0, i32 1
  %rest = load i64, ptr %at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}

; What a caller knows of a worker: the next one; its pthread_t; the core that it leaves out of its
; affinity while it sleeps, -1 where it leaves out none, -2 while a caller changes it; its affinity
; awake, and asleep.
%record = type { ptr, i64, i32, [16 x i64], [16 x i64] }
@records = internal global ptr null

; An affinity without a core, in `others`.
define internal void @without(ptr %mask, i32 %core, ptr %others) {
  call void @llvm.memcpy.p0.p0.i64(ptr %others, ptr %mask, i64 128, i1 false)
  %word = lshr i32 %core, 6
  %bit = and i32 %core, 63
  %wide = zext i32 %bit to i64
  %one = shl i64 1, %wide
  %not = xor i64 %one, -1
  %at = getelementptr i64, ptr %others, i32 %word
  %old = load i64, ptr %at
  %new = and i64 %old, %not
  store i64 %new, ptr %at
  ret void
}

; Take the core of the last caller out of this worker's affinity, so that it wakes elsewhere: Linux may
; wake a thread on its caller's core, though others are idle, and leave both there for milliseconds.
define internal void @avoid(ptr %r) {
entry:
  %left_out = getelementptr %record, ptr %r, i32 0, i32 2
  %mask = getelementptr %record, ptr %r, i32 0, i32 3
  %others = getelementptr %record, ptr %r, i32 0, i32 4
  %core = load atomic i32, ptr @caller_core monotonic, align 4
  %known = icmp ult i32 %core, 1024
  br i1 %known, label %ask, label %done
ask:
  %z = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  %good = icmp eq i32 %z, 0
  br i1 %good, label %clear, label %done
clear:
  call void @without(ptr %mask, i32 %core, ptr %others)
  ; fails where nothing is left
  %z0 = call i32 @sched_setaffinity(i32 0, i64 128, ptr %others)
  %set = icmp eq i32 %z0, 0
  br i1 %set, label %tell, label %done
tell:
  store atomic i32 %core, ptr %left_out seq_cst, align 4
  br label %done
done:
  ret void
}

; Put the core back, unless someone has changed the affinity meanwhile.
define internal void @return(ptr %r) {
entry:
  %now = alloca [16 x i64], align 16
  %left_out = getelementptr %record, ptr %r, i32 0, i32 2
  %mask = getelementptr %record, ptr %r, i32 0, i32 3
  %others = getelementptr %record, ptr %r, i32 0, i32 4
  br label %look
look:
  %core = load atomic i32, ptr %left_out seq_cst, align 4
  switch i32 %core, label %take [ i32 -1, label %done
                                  i32 -2, label %look ]
take:
  %pair = cmpxchg ptr %left_out, i32 %core, i32 -1 seq_cst seq_cst
  %taken = extractvalue { i32, i1 } %pair, 1
  br i1 %taken, label %compare, label %look
compare:
  %z = call i32 @sched_getaffinity(i32 0, i64 128, ptr %now)
  %apart = call i32 @memcmp(ptr %now, ptr %others, i64 128)
  %differ = or i32 %z, %apart
  %ours = icmp eq i32 %differ, 0
  br i1 %ours, label %set, label %done
set:
  %z0 = call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
  br label %done
done:
  ret void
}

; Let the workers that sleep leave out the core of a caller that has moved since they fell asleep.
define internal void @steer(i32 %core) {
entry:
  %now = alloca [16 x i64], align 16
  %new = alloca [16 x i64], align 16
  %known = icmp ult i32 %core, 1024
  br i1 %known, label %first, label %done
first:
  %head = load atomic ptr, ptr @records acquire, align 8
  br label %each
each:
  %r = phi ptr [ %head, %first ], [ %after, %next ]
  %some = icmp ne ptr %r, null
  br i1 %some, label %look, label %done
look:
  %handle_at = getelementptr %record, ptr %r, i32 0, i32 1
  %left_out = getelementptr %record, ptr %r, i32 0, i32 2
  %mask = getelementptr %record, ptr %r, i32 0, i32 3
  %others = getelementptr %record, ptr %r, i32 0, i32 4
  %left = load atomic i32, ptr %left_out seq_cst, align 4
  %asleep = icmp sge i32 %left, 0
  %moved = icmp ne i32 %left, %core
  %change = and i1 %asleep, %moved
  br i1 %change, label %take, label %next
take:
  %pair = cmpxchg ptr %left_out, i32 %left, i32 -2 seq_cst seq_cst
  %taken = extractvalue { i32, i1 } %pair, 1
  br i1 %taken, label %compare, label %next
compare:  ; someone else may have changed it
  %handle = load i64, ptr %handle_at
  %z = call i32 @pthread_getaffinity_np(i64 %handle, i64 128, ptr %now)
  %apart = call i32 @memcmp(ptr %now, ptr %others, i64 128)
  %differ = or i32 %z, %apart
  %ours = icmp eq i32 %differ, 0
  br i1 %ours, label %set, label %give
set:
  call void @without(ptr %mask, i32 %core, ptr %new)
  %z0 = call i32 @pthread_setaffinity_np(i64 %handle, i64 128, ptr %new)
  %good = icmp eq i32 %z0, 0
  br i1 %good, label %tell, label %give
tell:
  call void @llvm.memcpy.p0.p0.i64(ptr %others, ptr %new, i64 128, i1 false)
  br label %give
give:
  %out = phi i32 [ %left, %compare ], [ %left, %set ], [ %core, %tell ]
  store atomic i32 %out, ptr %left_out seq_cst, align 4
  br label %next
next:
  %after = load ptr, ptr %r
  br label %each
done:
  ret void
}

define internal void @part(i64 %me) {
  %n = load i64, ptr @job_n
  %fn = load ptr, ptr @job_fn
  %ctx = load ptr, ptr @job_ctx
  %grain = load i64, ptr @job_grain
  %asked = icmp sgt i64 %grain, 0
  br i1 %asked, label %take, label %share
take:
  %first = atomicrmw add ptr @job_next, i64 %grain monotonic
  %more = icmp slt i64 %first, %n
  br i1 %more, label %grains, label %done
grains:
  %last = add i64 %first, %grain
  %inside = icmp slt i64 %last, %n
  %stop = select i1 %inside, i64 %last, i64 %n
  call void %fn(i64 %first, i64 %stop, ptr %ctx)
  br label %take
share:
  %workers = load i32, ptr @workers
  %wide = zext i32 %workers to i64
  %threads = add i64 %wide, 1
  %each = udiv i64 %n, %threads
  %left = urem i64 %n, %threads
  %b0 = mul i64 %each, %me
  %early = icmp ult i64 %me, %left
  %b1 = select i1 %early, i64 %me, i64 %left
  %begin = add i64 %b0, %b1
  %one = zext i1 %early to i64
  %e0 = add i64 %begin, %each
  %end = add i64 %e0, %one
  %some = icmp ult i64 %begin, %end
  br i1 %some, label %run, label %done
run:
  call void %fn(i64 %begin, i64 %end, ptr %ctx)
  ret void
done:
  ret void
}

define internal ptr @worker(ptr %arg) {
entry:
  %r = alloca %record, align 64
  %me = ptrtoint ptr %arg to i64
  %self = call i64 @pthread_self()
  %handle = getelementptr %record, ptr %r, i32 0, i32 1
  store i64 %self, ptr %handle
  %left_out = getelementptr %record, ptr %r, i32 0, i32 2
  store i32 -1, ptr %left_out
  br label %push
push:
  %head = load atomic ptr, ptr @records acquire, align 8
  store ptr %head, ptr %r
  %pair = cmpxchg ptr @records, ptr %head, ptr %r seq_cst seq_cst
  %pushed = extractvalue { ptr, i1 } %pair, 1
  br i1 %pushed, label %next, label %push
next:
  %seen = phi i32 [ 0, %push ], [ %now, %finished ], [ %now, %wake ]
  br label %doze
doze:
  br label %spin
spin:
  %k = phi i32 [ 0, %doze ], [ %k1, %pause ], [ %k1, %yield ]
  %since = phi i64 [ 0, %doze ], [ 0, %pause ], [ %since1, %yield ]
  %now = load atomic i32, ptr @epoch acquire, align 64
  %new = icmp ne i32 %now, %seen
  br i1 %new, label %job, label %idle
idle:
  %k1 = add i32 %k, 1
  %close = icmp slt i32 %k1, $spins
  br i1 %close, label %pause, label %yield
pause:
  call void $pause
  br label %spin
yield:
  %s4 = call i32 @sched_yield()
  %time = call i64 @clock()
  %begun = icmp eq i32 %k1, $spins
  %since1 = select i1 %begun, i64 %time, i64 %since
  %waited = sub i64 %time, %since1
  %tired = icmp sge i64 %waited, $patience
  br i1 %tired, label %sleep, label %spin
sleep:
  call void @avoid(ptr %r)
  %s0 = atomicrmw add ptr @sleepers, i32 1 seq_cst
  %s1 = call i64 @futex(ptr @epoch, i32 128, i32 %seen)
  %s2 = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  call void @return(ptr %r)
  br label %doze
job:
  call void @part(i64 %me)
  %before = atomicrmw sub ptr @pending, i32 1 seq_cst
  %last = icmp eq i32 %before, 1
  br i1 %last, label %finished, label %wake
finished:
  %w = load atomic i32, ptr @waiting seq_cst, align 64
  %w0 = icmp eq i32 %w, 0
  br i1 %w0, label %next, label %call
call:
  %s3 = call i64 @futex(ptr @pending, i32 129, i32 1)
  br label %wake
wake:
  br label %next
}

define internal void @start() {
entry:
  %all = alloca [32 x i64], align 16
  %old = alloca [32 x i64], align 16
  %thread = alloca i64
  %z0 = call i32 @sigfillset(ptr %all)
  ; signals belong to the threads that Python knows
  %z1 = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  br label %loop
loop:
  %i = phi i64 [ 1, %entry ], [ %j, %made ]
$limit  %more = icmp slt i64 %i, $threads
  br i1 %more, label %make, label %done
make:
  %arg = inttoptr i64 %i to ptr
  %z2 = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %arg)
  %good = icmp eq i32 %z2, 0
  br i1 %good, label %made, label %done
made:
  %j = add i64 %i, 1
  br label %loop
done:
  %z3 = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  %count = sub i64 %i, 1
  %small = trunc i64 %count to i32
  store i32 %small, ptr @workers
  store i32 1, ptr @started
  ret void
}

define void @whet_parallel_for(ptr %fn, ptr %ctx, i64 %n, i64 %grain) {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %many, label %out
many:
$page  %mark = load i8, ptr $mark
  %here = icmp eq i8 %mark, 1
  %least = call i64 @llvm.smax.i64(i64 %grain, i64 1)
  %two = icmp sgt i64 %n, %least
  %try = and i1 %here, %two
  br i1 %try, label %take, label %serial
take:
  %pair = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %pair, 1
  br i1 %mine, label %ours, label %serial
serial:
  call void %fn(i64 0, i64 %n, ptr %ctx)
  ret void
ours:
  %started = load i32, ptr @started
  %new = icmp eq i32 %started, 0
  br i1 %new, label %first, label %go
first:
  call void @start()
  br label %go
go:
  %workers = load i32, ptr @workers
  %alone = icmp eq i32 %workers, 0
  store i64 %n, ptr @job_n
  store i64 %grain, ptr @job_grain
  store i64 0, ptr @job_next
  store ptr %fn, ptr @job_fn
  store ptr %ctx, ptr @job_ctx
  br i1 %alone, label %mypart, label %fork
fork:
  %core = call i32 @sched_getcpu()
  store atomic i32 %core, ptr @caller_core monotonic, align 4
  %dozing = load atomic i32, ptr @sleepers seq_cst, align 64
  %quiet = icmp eq i32 %dozing, 0
  br i1 %quiet, label %hand, label %steer
steer:
  call void @steer(i32 %core)
  br label %hand
hand:
  store atomic i32 %workers, ptr @pending seq_cst, align 64
  %e = atomicrmw add ptr @epoch, i32 1 seq_cst
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 64
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %rouse, label %mypart
rouse:
  %s0 = call i64 @futex(ptr @epoch, i32 129, i32 2147483647)
  br label %mypart
mypart:
  call void @part(i64 0)
  br label %join
join:
  %k = phi i32 [ 0, %mypart ], [ %k1, %pause ], [ %k1, %yield ]
  %since = phi i64 [ 0, %mypart ], [ 0, %pause ], [ %since1, %yield ]
  %p = load atomic i32, ptr @pending acquire, align 64
  %over = icmp eq i32 %p, 0
  br i1 %over, label %free, label %idle
idle:
  %k1 = add i32 %k, 1
  %close = icmp slt i32 %k1, $spins
  br i1 %close, label %pause, label %yield
pause:
  call void $pause
  br label %join
yield:
  %s2 = call i32 @sched_yield()
  %time = call i64 @clock()
  %begun = icmp eq i32 %k1, $spins
  %since1 = select i1 %begun, i64 %time, i64 %since
  %waited = sub i64 %time, %since1
  %tired = icmp sge i64 %waited, $patience
  br i1 %tired, label %sleep, label %join
sleep:
  store atomic i32 1, ptr @waiting seq_cst, align 64
  br label %check
check:
  %q = load atomic i32, ptr @pending seq_cst, align 64
  %q0 = icmp eq i32 %q, 0
  br i1 %q0, label %rested, label %wait
wait:
  %s1 = call i64 @futex(ptr @pending, i32 128, i32 %q)
  br label %check
rested:
  store atomic i32 0, ptr @waiting seq_cst, align 64
  br label %free
free:
  store atomic i32 0, ptr @busy release, align 64
  br label %out
out:
  ret void
}
