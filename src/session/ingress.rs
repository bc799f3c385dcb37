//! Ports of a drive's host that others may reach: opened once a session has its host, and said aloud.

use super::request::Request;
use crate::access::ingress::ports;
use crate::cloud::Cloud;
use crate::drive::tags::{Settings, Unreadable};
use crate::ec2::{Instance, OpenPort};
use crate::report::Report;

/// The ports that are asked for, else the drive's own.
pub(super) fn wanted(request: &Request, settings: &Settings) -> Result<Vec<OpenPort>, Unreadable> {
    match &request.options.ingress {
        Some(asked) => Ok(asked.clone()),
        None => Ok(settings.ingress()?.unwrap_or_default()),
    }
}

/// Opens the ports of this host, and closes others that were. What cannot be opened is said, and does not end
/// the session.
pub(super) async fn settle(
    request: &Request,
    settings: &Settings,
    host: &Instance,
    cloud: &Cloud,
    report: &Report,
) {
    let wanted = match wanted(request, settings) {
        Ok(wanted) => wanted,
        Err(error) => {
            report.warn(&format!("no port is opened: {error}"));
            return;
        }
    };
    let opened = ports::open(&cloud.ec2, &request.drive, host, &wanted, &cloud.tags).await;
    match opened {
        Ok(()) => {
            for port in &wanted {
                report.print(&format!("{} (--no-ingress closes it)", port.words()));
            }
        }
        Err(error) => {
            let ports: Vec<String> = wanted.iter().map(OpenPort::to_string).collect();
            let ports = ports.join(", ");
            report.warn(&format!(
                "the open ports ({ports}) are not as they are to be: {error}"
            ));
        }
    }
}
