//! The bundle of scripts that is sent to a host: to `/var/lib/xdrive/scripts/HASH`, where they stay
//! as long as the machine, also after a reboot. Each version of xdrive has its own directory.
//!
//! They are sent compressed, once the host has asked for them. A host that has them gets one line,
//! and nothing takes another round trip.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// The scripts, by name.
const SCRIPTS: [(&str, &str); 63] = [
    ("prelude", include_str!("../../shell/host/prelude")),
    ("presence", include_str!("../../shell/host/presence")),
    ("tries.py", include_str!("../../shell/host/tries.py")),
    ("reserve", include_str!("../../shell/host/reserve")),
    ("network", include_str!("../../shell/host/network")),
    ("engine", include_str!("../../shell/host/engine")),
    (
        "engine_settings.py",
        include_str!("../../shell/host/engine_settings.py"),
    ),
    (
        "engine_store.py",
        include_str!("../../shell/host/engine_store.py"),
    ),
    ("gpu", include_str!("../../shell/host/gpu")),
    ("mounts", include_str!("../../shell/host/mounts")),
    ("binds.py", include_str!("../../shell/host/binds.py")),
    ("build", include_str!("../../shell/host/build")),
    ("archive", include_str!("../../shell/host/archive")),
    ("session", include_str!("../../shell/host/session")),
    ("host_key", include_str!("../../shell/host/host_key")),
    ("drive", include_str!("../../shell/host/drive")),
    ("container", include_str!("../../shell/host/container")),
    ("containers", include_str!("../../shell/host/containers")),
    ("flatten.py", include_str!("../../shell/host/flatten.py")),
    ("holes.py", include_str!("../../shell/host/holes.py")),
    ("pull.py", include_str!("../../shell/host/pull.py")),
    (
        "jupyter_config.py",
        include_str!("../../shell/host/jupyter_config.py"),
    ),
    ("terminal.py", include_str!("../../shell/host/terminal.py")),
    ("shells.py", include_str!("../../shell/host/shells.py")),
    (
        "processes.py",
        include_str!("../../shell/host/processes.py"),
    ),
    ("ptmx.py", include_str!("../../shell/host/ptmx.py")),
    ("command.py", include_str!("../../shell/host/command.py")),
    ("running.py", include_str!("../../shell/host/running.py")),
    ("results.py", include_str!("../../shell/host/results.py")),
    ("notify.py", include_str!("../../shell/host/notify.py")),
    ("criu.py", include_str!("../../shell/host/criu.py")),
    ("cuda.py", include_str!("../../shell/host/cuda.py")),
    ("shm.py", include_str!("../../shell/host/shm.py")),
    ("frozen.py", include_str!("../../shell/host/frozen.py")),
    ("sockets.py", include_str!("../../shell/host/sockets.py")),
    ("notebook.py", include_str!("../../shell/host/notebook.py")),
    ("freeze.py", include_str!("../../shell/host/freeze.py")),
    ("retry.py", include_str!("../../shell/host/retry.py")),
    ("environment", include_str!("../../shell/host/environment")),
    ("share", include_str!("../../shell/host/share")),
    ("swarm", include_str!("../../shell/host/swarm")),
    ("swarm.py", include_str!("../../shell/host/swarm.py")),
    ("ssh", include_str!("../../shell/host/ssh")),
    ("sftp.py", include_str!("../../shell/host/sftp.py")),
    ("files.py", include_str!("../../shell/host/files.py")),
    ("agent.py", include_str!("../../shell/host/agent.py")),
    ("role.py", include_str!("../../shell/host/role.py")),
    ("caller.py", include_str!("../../shell/host/caller.py")),
    ("client.py", include_str!("../../shell/host/client.py")),
    ("piped.py", include_str!("../../shell/host/piped.py")),
    ("budget.py", include_str!("../../shell/host/budget.py")),
    ("deadline.py", include_str!("../../shell/host/deadline.py")),
    ("spool.py", include_str!("../../shell/host/spool.py")),
    ("runs.py", include_str!("../../shell/host/runs.py")),
    ("keeper.py", include_str!("../../shell/host/keeper.py")),
    ("enter.py", include_str!("../../shell/host/enter.py")),
    ("inside.py", include_str!("../../shell/host/inside.py")),
    ("ports.py", include_str!("../../shell/host/ports.py")),
    ("hot.py", include_str!("../../shell/host/hot.py")),
    ("idle.py", include_str!("../../shell/host/idle.py")),
    ("unused", include_str!("../../shell/host/unused")),
    ("close", include_str!("../../shell/host/close")),
    ("watch", include_str!("../../shell/host/watch")),
];

/// The fact by which a host asks for them.
pub(super) const QUESTION: &str = "wants=scripts";

/// The line that ends each script in the bundle; no script has such a line.
const END: &str = "XDRIVE-END-OF-SCRIPT";

/// The directory of this version's scripts on a host.
pub(super) static DIRECTORY: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for (name, text) in SCRIPTS {
        hash.update(format!("{name} {}\n{text}", text.len()));
    }
    format!(
        "/var/lib/xdrive/scripts/{}",
        &hex::encode(hash.finalize())[..16]
    )
});

/// The command that runs a script in Python.
pub(super) fn python(script: &str) -> String {
    // Isolated: neither the environment nor a folder decides what is imported.
    format!("python3 -I -S {}/{script}", *DIRECTORY)
}

/// The command that runs `script` (its name and verb): at once if the host has the scripts, else as
/// soon as [`packed`] has arrived on its standard input. The brace closes a bundle that was cut
/// right behind `NAME()`, so that `exit 1` does not become that function's body.
pub(super) fn command(script: &str) -> String {
    let directory = &*DIRECTORY;
    format!(
        "[ ! -d {directory} ] || exec sh {directory}/{script} < /dev/null; \
         echo 'xdrive: {QUESTION}'; {{ gzip -dc || printf '\\n}}\\nexit 1\\n'; }} | sh"
    )
}

/// Runs `command` (a script with inputs) if the host has the scripts, and only asks for them
/// otherwise.
pub(super) fn only_there(command: &str) -> String {
    let directory = &*DIRECTORY;
    format!("[ -d {directory} ] || {{ echo 'xdrive: {QUESTION}'; exit; }}; {command}")
}

/// [`bundle`], compressed.
pub(super) fn packed(script: &str) -> Vec<u8> {
    let text = bundle(script);
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    let written = packer.write_all(text.as_bytes());
    // Writing to memory does not fail; an empty bundle is an error on the host.
    written.and_then(|()| packer.finish()).unwrap_or_default()
}

/// A script for `sh`'s standard input that unpacks all scripts and runs `script`. Everything is in
/// functions that its last line calls: a bundle that is cut short does nothing.
fn bundle(script: &str) -> String {
    let directory = &*DIRECTORY;
    let mut text = format!(
        "unpack() {{\numask 077\nrm -rf {directory}.$$ && mkdir -p {directory}.$$ || exit 1\n"
    );
    for (name, script) in SCRIPTS {
        let _ = write!(
            text,
            "cat > {directory}.$$/{name} << '{END}' || exit 1\n{script}{END}\n"
        );
    }
    // Two clients at once unpack the same; the second finds the directory there.
    let _ = write!(
        text,
        "mv -T {directory}.$$ {directory} 2> /dev/null || rm -rf {directory}.$$\n}}\n\
         main() {{\n[ -d {directory} ] || unpack\nexec sh {directory}/{script} < /dev/null\n}}\n\
         main\n"
    );
    text
}

#[cfg(test)]
mod tests;
