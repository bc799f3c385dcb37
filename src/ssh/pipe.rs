//! A command on the host between the local standard streams, byte for byte, for as long as one
//! connection lasts.
//!
//! It is for bytes that have a protocol of their own: nothing is kept, resumed or read for escapes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;

use russh::ChannelMsg;

use super::channel::{Session, signal_number};
use super::dedicated::DedicatedConnection;
use super::error::SshError;
use super::shell::{ShellError, ShellExit};
use super::streams::{Sink, Source};

/// Runs `command` over `connection` until it or the connection ends, and all its output is written.
pub async fn pipe(connection: DedicatedConnection, command: &str) -> Result<ShellExit, ShellError> {
    let DedicatedConnection {
        ssh, beside, gate, ..
    } = connection;
    let Session {
        mut messages,
        sender,
    } = ssh.exec(command, None).await?;
    let own = |stream: &dyn AsFd| -> io::Result<OwnedFd> { stream.as_fd().try_clone_to_owned() };
    let mut input = Source::open(own(&io::stdin())?)?;
    let output = Sink::open(own(&io::stdout())?, Arc::clone(&gate))?;
    let errors = Sink::open(own(&io::stderr())?, gate)?;
    let mut sending = pin!(async {
        while let Some(bytes) = input.next().await {
            if !sender.send(bytes).await {
                return;
            }
        }
        sender.eof().await;
    });
    let mut is_sent = false;
    let mut status = None;
    let exit = loop {
        tokio::select! {
            () = &mut sending, if !is_sent => is_sent = true,
            // As SIGPIPE would end it locally.
            () = output.failed() => break ShellExit::Signal { number: 13 },
            reason = beside.wait_for_end() => break ShellExit::Lost(reason),
            message = messages.wait() => match message {
                Some(ChannelMsg::Data { data }) => output.push(data),
                Some(ChannelMsg::ExtendedData { data, .. }) => errors.push(data),
                Some(ChannelMsg::ExitStatus { exit_status }) => {
                    status = Some(ShellExit::Status(exit_status));
                }
                Some(ChannelMsg::ExitSignal { signal_name, .. }) => {
                    let number = signal_number(&signal_name);
                    status = Some(ShellExit::Signal { number });
                }
                Some(ChannelMsg::Failure) => {
                    let what = "to run a command".to_owned();
                    return Err(SshError::Refused(ssh.address(), what).into());
                }
                Some(ChannelMsg::Close) | None => break match status {
                    Some(exit) => exit,
                    None => ShellExit::Lost(sender.wait_for_end().await),
                },
                Some(_) => {}
            },
        }
    };
    output.drained().await;
    errors.drained().await;
    Ok(exit)
}
