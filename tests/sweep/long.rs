//! Trials that take long, or build what takes long: only with `XDRIVE_LONG`, and never in a bounded
//! sweep.

use libtest_mimic::{Completion, Failed, Trial};

/// A trial that is ignored unless `XDRIVE_LONG` is set.
pub(crate) fn trial(
    name: &str,
    needs_root: bool,
    run: impl FnOnce() -> anyhow::Result<Completion> + Send + 'static,
) -> Trial {
    let body = move || {
        if std::env::var_os("XDRIVE_LONG").is_none_or(|long| long == "0") {
            return Ok(Completion::ignored_with("takes long: needs XDRIVE_LONG"));
        }
        if needs_root && !rustix::process::geteuid().is_root() {
            return Ok(Completion::ignored_with("needs root"));
        }
        run().map_err(|error| Failed::from(format!("{error:?}")))
    };
    Trial::ignorable_test(name, body).with_ignored_flag(true)
}
