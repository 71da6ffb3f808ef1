"""The names that C's library has for itself: a kernel of this name gets another symbol.

ISO C's and POSIX's functions, and what glibc has beside them; in a program that a kernel's library
is linked into, a symbol of such a name would take the place of the library's own function.
"""

from __future__ import annotations

import re

_MATHEMATICS = """
acos acosh asin asinh atan atan2 atanh cabs cacos cacosh canonicalize carg casin casinh catan
catanh cbrt ccos ccosh ceil cexp cimag clog clog10 conj copysign cos cosh cpow cproj creal csin
csinh csqrt ctan ctanh drem erf erfc exp exp10 exp2 expm1 fabs fdim finite floor fma fmax fmaximum
fmaximum_mag fmaximum_mag_num fmaximum_num fmaxmag fmin fminimum fminimum_mag fminimum_mag_num
fminimum_num fminmag fmod frexp fromfp fromfpx gamma getpayload hypot ilogb isinf isnan j0 j1 jn
ldexp lgamma llogb llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint
nextafter nextdown nexttoward nextup pow pow10 remainder remquo rint round roundeven scalb scalbln
scalbn setpayload setpayloadsig significand sin sincos sinh sqrt tan tanh tgamma totalorder
totalordermag trunc ufromfp ufromfpx y0 y1 yn
"""
_FUNCTIONS = """
a64l abort abs accept accept4 access acct addmntent addseverity adjtime adjtimex advance alarm
aligned_alloc alphasort arc4random arc4random_buf arc4random_uniform arch_prctl asctime asprintf
atof atoi atol atoll backtrace backtrace_symbols backtrace_symbols_fd basename bcmp bcopy bdflush
bind bind_textdomain_codeset bindresvport bindtextdomain brk bsd_signal bsearch btowc bzero
c16rtomb c32rtomb c8rtomb call_once calloc callrpc canonicalize_file_name capget capset catclose
catgets catopen cbc_crypt cfgetispeed cfgetospeed cfmakeraw cfree cfsetispeed cfsetospeed
cfsetspeed chdir chflags chmod chown chroot clearenv clearerr clock clock_adjtime
clock_getcpuclockid clock_getres clock_gettime clock_nanosleep clock_settime clone close
close_range closedir closefrom closelog confstr connect copy_file_range creat create_module
ctermid ctime cuserid daemon daylight dcgettext dcngettext delete_module des_setparity dgettext
difftime dirfd dirname div dl_iterate_phdr dladdr dladdr1 dlclose dlerror dlinfo dlmopen dlopen
dlsym dlvsym dn_comp dn_expand dn_skipname dngettext dprintf drand48 dup dup2 dup3 duplocale
dysize eaccess ecb_crypt ecvt edata end endaliasent endfsent endgrent endhostent endmntent
endnetent endnetgrent endprotoent endpwent endservent endsgent endspent endttyent endusershell
endutent endutxent environ epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2
epoll_wait erand48 err errno error error_at_line error_message_count error_one_per_line
error_print_progname errx etext ether_aton ether_hostton ether_line ether_ntoa ether_ntohost
euidaccess eventfd eventfd_read eventfd_write execl execle execlp execv execve execveat execvp
execvpe exit explicit_bzero faccessat fallocate fattach fchdir fchflags fchmod fchmodat fchown
fchownat fclose fcloseall fcntl fcvt fdatasync fdetach fdopen fdopendir feclearexcept
fedisableexcept feenableexcept fegetenv fegetexcept fegetexceptflag fegetmode fegetround
feholdexcept feof feraiseexcept ferror fesetenv fesetexcept fesetexceptflag fesetmode fesetround
fetestexcept fetestexceptflag feupdateenv fexecve fflush ffs ffsl ffsll fgetc fgetgrent fgetpos
fgetpwent fgets fgetsgent fgetspent fgetwc fgetws fgetxattr fileno flistxattr flock flockfile
fmemopen fmtmsg fnmatch fopen fopencookie fork forkpty fpathconf fprintf fputc fputs fputwc fputws
fread free freeaddrinfo freeifaddrs freelocale fremovexattr freopen fscanf fsconfig fseek fseeko
fsetpos fsetxattr fsmount fsopen fspick fstat fstatat fstatfs fstatvfs fsync ftell ftello ftime
ftok ftruncate ftrylockfile ftw funlockfile futimens futimes futimesat fwide fwprintf fwrite
fwscanf gai_cancel gai_error gai_strerror gai_suspend gcvt get_avphys_pages get_current_dir_name
get_kernel_syms get_myaddress get_nprocs get_nprocs_conf get_phys_pages getaddrinfo getaddrinfo_a
getaliasbyname getaliasent getauxval getc getchar getcontext getcpu getcwd getdate getdate_err
getdelim getdents64 getdirentries getdomainname getdtablesize getegid getentropy getenv geteuid
getfsent getfsfile getfsspec getgid getgrent getgrgid getgrnam getgrouplist getgroups
gethostbyaddr gethostbyname gethostbyname2 gethostent gethostid gethostname getifaddrs
getipv4sourcefilter getitimer getline getloadavg getlogin getmntent getmsg getnameinfo
getnetbyaddr getnetbyname getnetent getnetgrent getnetname getopt getopt_long getopt_long_only
getpagesize getpass getpeername getpgid getpgrp getpid getpmsg getppid getpriority getprotobyname
getprotobynumber getprotoent getpt getpublickey getpw getpwent getpwnam getpwuid getrandom
getresgid getresuid getrlimit getrusage gets getsecretkey getservbyname getservbyport getservent
getsgent getsgnam getsid getsockname getsockopt getsourcefilter getspent getspnam getsubopt
gettext gettid gettimeofday getttyent getttynam getuid getusershell getw getwc getwchar getwd
getxattr glob glob_pattern_p globfree gmtime gnu_dev_major gnu_dev_makedev gnu_dev_minor
gnu_get_libc_release gnu_get_libc_version grantpt group_member gsignal gtty h_errlist h_nerr
hasmntopt hcreate hdestroy herror host2netname hsearch hstrerror htonl htons iconv iconv_close
iconv_open if_freenameindex if_indextoname if_nameindex if_nametoindex imaxabs imaxdiv in6addr_any
in6addr_loopback index init_module initgroups initstate innetgr insque ioctl ioperm iopl iruserok
iruserok_af isalnum isalpha isascii isastream isatty isblank iscntrl isctype isdigit isfdtype
isgraph islower isprint ispunct isspace isupper iswalnum iswalpha iswblank iswcntrl iswctype
iswdigit iswgraph iswlower iswprint iswpunct iswspace iswupper iswxdigit isxdigit jrand48
key_decryptsession key_decryptsession_pk key_encryptsession key_encryptsession_pk key_gendes
key_get_conv key_secretkey_is_set key_setnet key_setsecret kill killpg klogctl l64a labs lchmod
lchown lckpwdf lcong48 ldiv lfind lgetxattr link linkat listen listxattr llabs lldiv llistxattr
llseek loc1 loc2 localeconv localtime lockf locs login login_tty logout logwtmp longjmp lrand48
lremovexattr lsearch lseek lsetxattr lstat lutimes madvise main makecontext mallinfo mallinfo2
malloc malloc_info malloc_stats malloc_trim malloc_usable_size mallopt mallwatch matherr mblen
mbrlen mbrtoc16 mbrtoc32 mbrtoc8 mbrtowc mbsinit mbsnrtowcs mbsrtowcs mbstowcs mbtowc mcheck
mcheck_check_all mcheck_pedantic mcount memalign memccpy memchr memcmp memcpy memfd_create memfrob
memmem memmove mempcpy memrchr memset mincore mkdir mkdirat mkdtemp mkfifo mkfifoat mknod mknodat
mkostemp mkostemps mkstemp mkstemps mktemp mktime mlock mlock2 mlockall mmap modify_ldt moncontrol
monstartup mount mount_setattr move_mount mprobe mprotect mq_close mq_getattr mq_notify mq_open
mq_receive mq_send mq_setattr mq_timedreceive mq_timedsend mq_unlink mrand48 mremap msgctl msgget
msgrcv msgsnd msync mtrace munlock munlockall munmap muntrace name_to_handle_at nanosleep
netname2host netname2user newlocale nfsservctl nftw ngettext nice nl_langinfo nrand48 ntohl ntohs
ntp_adjtime ntp_gettime ntp_gettimex on_exit open open_by_handle_at open_memstream open_tree
open_wmemstream openat opendir openlog openpty optarg opterr optind optopt parse_printf_format
passwd2des pathconf pause pclose perror personality pidfd_getfd pidfd_open pidfd_send_signal pipe
pipe2 pivot_root pkey_alloc pkey_free pkey_get pkey_mprotect pkey_set poll popen ppoll prctl pread
preadv preadv2 printf prlimit process_madvise process_mrelease process_vm_readv process_vm_writev
profil program_invocation_name program_invocation_short_name pselect psiginfo psignal ptrace
ptsname putc putchar putenv putgrent putmsg putpmsg putpwent puts putsgent putspent pututline
pututxline putw putwc putwchar pvalloc pwrite pwritev pwritev2 qecvt qfcvt qgcvt qsort
query_module quick_exit quotactl raise rand random rawmemchr rcmd rcmd_af re_comp
re_compile_fastmap re_compile_pattern re_exec re_match re_match_2 re_max_failures re_search
re_search_2 re_set_registers re_set_syntax re_syntax_options read readahead readdir readlink
readlinkat readv realloc reallocarray realpath reboot recv recvfrom recvmmsg recvmsg regcomp
regerror regexec regfree register_printf_function register_printf_modifier
register_printf_specifier register_printf_type registerrpc remap_file_pages remove removexattr
remque rename renameat renameat2 revoke rewind rewinddir rexec rexec_af rexecoptions rindex rmdir
rpc_createerr rpmatch rresvport rresvport_af rtime ruserok ruserok_af ruserpass sbrk scandir
scandirat scanf sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getcpu
sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setparam
sched_setscheduler sched_yield secure_getenv seed48 seekdir select sem_clockwait sem_close
sem_destroy sem_getvalue sem_init sem_open sem_post sem_timedwait sem_trywait sem_unlink sem_wait
semctl semget semop semtimedop send sendfile sendmmsg sendmsg sendto setaliasent setbuf setbuffer
setcontext setdomainname setegid setenv seteuid setfsent setfsgid setfsuid setgid setgrent
setgroups sethostent sethostid sethostname setipv4sourcefilter setitimer setjmp setlinebuf
setlocale setlogin setlogmask setmntent setnetent setnetgrent setns setpgid setpgrp setpriority
setprotoent setpwent setregid setresgid setresuid setreuid setrlimit setservent setsgent setsid
setsockopt setsourcefilter setspent setstate settimeofday setttyent setuid setusershell setutent
setutxent setvbuf setxattr sgetsgent sgetspent shm_open shm_unlink shmat shmctl shmdt shmget
shutdown sigabbrev_np sigaction sigaddset sigaltstack sigandset sigblock sigdelset sigdescr_np
sigemptyset sigfillset siggetmask sighold sigignore siginterrupt sigisemptyset sigismember
siglongjmp signal signalfd signgam sigorset sigpause sigpending sigprocmask sigqueue sigrelse
sigreturn sigset sigsetmask sigstack sigsuspend sigtimedwait sigvec sigwait sigwaitinfo sleep
snprintf sockatmark socket socketpair splice sprintf sprofil srand srand48 srandom sscanf ssignal
sstk stat statfs statvfs statx stderr stdin stdout step stime stpcpy stpncpy strcasecmp strcasestr
strcat strchr strchrnul strcmp strcoll strcpy strcspn strdup strerror strerrordesc_np
strerrorname_np strfmon strfromd strfromf strfromf128 strfromf32 strfromf32x strfromf64x strfroml
strfry strftime strlen strncasecmp strncat strncmp strncpy strndup strnlen strpbrk strptime
strrchr strsep strsignal strspn strstr strtod strtof strtof128 strtof32 strtof32x strtof64x
strtoimax strtok strtol strtold strtoll strtoq strtoul strtoull strtoumax strtouq strverscmp
strxfrm stty swab swapcontext swapoff swapon swprintf swscanf symlink symlinkat sync
sync_file_range syncfs sys_errlist sys_nerr sys_sigabbrev sys_siglist syscall sysconf sysctl
sysinfo syslog system sysv_signal tcdrain tcflow tcflush tcgetattr tcgetpgrp tcgetsid tcsendbreak
tcsetattr tcsetpgrp tdelete tdestroy tee telldir tempnam textdomain tfind tgkill time timegm
timelocal timer_create timer_delete timer_getoverrun timer_gettime timer_settime times
timespec_get timespec_getres timezone tmpfile tmpnam toascii tolower toupper towctrans towlower
towupper tr_break truncate tsearch ttyname ttyslot twalk tzname tzset ualarm ulckpwdf ulimit umask
umount umount2 uname ungetc ungetwc unlink unlinkat unlockpt unsetenv unshare updwtmp updwtmpx
uselib uselocale user2netname usleep ustat utime utimensat utimes utmpname utmpxname valloc
vasprintf vdprintf verr verrx versionsort vfork vfprintf vfscanf vfwprintf vfwscanf vhangup vlimit
vmsplice vprintf vscanf vsnprintf vsprintf vsscanf vswprintf vswscanf vsyslog vtimes vwarn vwarnx
vwprintf vwscanf wait wait3 wait4 waitid waitpid warn warnx wcpcpy wcpncpy wcrtomb wctob wctomb
wctrans wctype wcwidth wordexp wordfree wprintf write writev wscanf xdecrypt xencrypt
"""
_FAMILIES = """
argp argz authdes authnone authunix aio clnt clntraw clnttcp clntudp clntunix cnd envz fanotify
fts64 fts inet inet6 inotify lio mtx ns obstack pmap posix printf pthread res svc svcauthdes
svcerr svcfd svcraw svctcp svcudp svcunix svcunixfd thrd timerfd tss xdr xdrmem xdrrec xdrstdio
xprt
"""

#: functions of numbers; each also with an ``f`` or an ``l`` at its end, or a width: ``expf32x``
MATHEMATICS = frozenset(_MATHEMATICS.split())

_OTHERS = frozenset(_FUNCTIONS.split())

_FAMILY = re.compile(f"(?:{'|'.join(_FAMILIES.split())})_|wcs|wmem|getut|(?:get|set|end)rpc")
_NARROWING = re.compile(r"(?:f(?:32|64)x?|[fd])(?:add|sub|mul|div|sqrt|fma)(?:f(?:32|64|128)x?|l)?")
_VARIANT = re.compile(r"(.+?)(?:_r|_l|_unlocked|64|64v2)")
_WIDTH = re.compile(r"(.+?)(?:f|l|f(?:16|32|64|128)x?)")


def is_of_the_library(name: str) -> bool:
    """True where C's library, or what links and starts a program, has a symbol of this name."""
    variant = _VARIANT.fullmatch(name)
    stem = variant[1] if variant else name
    width = _WIDTH.fullmatch(stem)
    return (
        name.startswith("_")
        or bool({name, stem} & (MATHEMATICS | _OTHERS))
        or (width is not None and width[1] in MATHEMATICS)
        or _FAMILY.match(name) is not None
        or _NARROWING.fullmatch(name) is not None
    )
