//! The warning where Docker's socket is in the container.

use crate::host::container::Container;
use crate::report::Report;

const DOCKER: &str = "Docker's socket is in the container (--docker): whoever reaches it is root on the \
     instance, with its role and all of the drive; --no-docker takes it away";

/// Warns whoever enters a container that has Docker's socket.
pub(crate) fn warn_of_docker(container: &Container, report: &Report) {
    if container.docker {
        report.print(DOCKER);
    }
}
