//! Runs a program under the system-call filter that LibreFang puts over its hooks: `lcm-sandbox PROGRAM [ARGUMENT]...`.
//!
//! The filter kills the process at each call that the host's kills, as far as they were tried one by one: the host lets
//! only named calls pass, and these are those of a file system, of processes and of memory that it does not name. A
//! program that is started inherits it.
//!
//! `lcm-sandbox --probe CALL` makes a call itself, so that a test can see that the filter is there.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File, FileTimes, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::SystemTime;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// What kills. `nice` is a call of the C library only: it is `setpriority`.
const KILLED: &[i64] = &[
    libc::SYS_flock,
    libc::SYS_ftruncate,
    libc::SYS_truncate,
    libc::SYS_fallocate,
    libc::SYS_linkat,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_msync,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    libc::SYS_fchown,
    libc::SYS_renameat2,
    libc::SYS_openat2,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_fadvise64,
    libc::SYS_sync_file_range,
    libc::SYS_syncfs,
    libc::SYS_memfd_create,
    libc::SYS_socketpair,
    libc::SYS_inotify_init1,
    libc::SYS_pidfd_open,
    libc::SYS_io_uring_setup,
    libc::SYS_setpriority,
    libc::SYS_capget,
    libc::SYS_tkill,
    libc::SYS_setuid,
    libc::SYS_unshare,
    libc::SYS_mount,
    libc::SYS_ptrace,
    libc::SYS_personality,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    libc::SYS_shmget,
    libc::SYS_semget,
    libc::SYS_mq_open,
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let program = args.next().ok_or("which program?")?;
    if program == "--probe" {
        let call = args.next().ok_or("which call?")?;
        let place = args.next().ok_or("in which folder?")?;
        std::env::set_current_dir(place)?;
        let file = File::create("probe")?;
        filter()?;
        return Ok(probe(&call.to_string_lossy(), file)?);
    }
    filter()?;
    // Only a failure comes back.
    Err(Command::new(program).args(args).exec().into())
}

/// Puts the filter over this process, for ever.
fn filter() -> Result<(), Box<dyn Error>> {
    let rules: BTreeMap<i64, _> = KILLED.iter().map(|call| (*call, Vec::new())).collect();
    let here = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::KillProcess, here)?;
    let program: BpfProgram = filter.try_into()?;
    Ok(seccompiler::apply_filter(&program)?)
}

/// Makes a call as the standard library makes it.
fn probe(call: &str, mut file: File) -> io::Result<()> {
    match call {
        "flock" => file.lock(),
        "ftruncate" => file.set_len(1),
        "linkat" => fs::hard_link("probe", "probe.link"),
        "chmod" => fs::set_permissions("probe", Permissions::from_mode(0o600)),
        "fchmod" => file.set_permissions(Permissions::from_mode(0o600)),
        "utimensat" => file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH)),
        "copy_file_range" => fs::copy("probe", "probe.copy").map(drop),
        "socketpair" => UnixStream::pair().map(drop),
        // What the spool needs passes.
        "none" => {
            fs::create_dir("folder")?;
            file.write_all(b"x")?;
            file.sync_all()?;
            fs::rename("probe", "folder/probe")?;
            File::open("folder")?.sync_all()?;
            fs::remove_file("folder/probe")
        }
        _ => Err(io::Error::other("no such probe")),
    }
}
