//! Channels: the sessions and TCP connections inside one SSH connection.
//!
//! Owns sending, which must also wait for the end of the connection (when it ends, russh does not
//! wake a writer that waits for window), and closing, which happens on every way out.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Sig};

use super::error::SshError;
use super::peer::End;
use xdrive_ground::terminal::Size;

/// The data of one SSH packet: larger pieces would be split again.
pub(super) const CHUNK: usize = 32 << 10;

/// The most bytes that a command may print where its output is collected. Scripts print facts, a line
/// each, and what Docker says to an error; the longest lists are those of a drive's runs.
const COLLECTED: usize = 8 << 20;

/// The fields of a pty-req (RFC 4254, section 6.2).
#[derive(Debug, Clone)]
pub struct TerminalRequest {
    /// The local `TERM`.
    pub(super) term: String,
    /// Columns, rows and pixels.
    pub(super) size: Size,
    /// The local terminal's modes (RFC 4254, section 8).
    pub(super) modes: Vec<(russh::Pty, u32)>,
}

/// The two halves of one channel.
pub struct Session {
    /// The channel's incoming messages; must be drained without pause.
    pub(super) messages: ChannelReadHalf,
    /// The channel's outgoing messages.
    pub sender: Sender,
}

/// A piece of the output of a command between pipes.
pub enum Output {
    /// A piece of its standard output.
    Stdout(Bytes),
    /// A piece of its standard error.
    Stderr(Bytes),
    /// The command's exit status; more output may follow.
    Status(u32),
}

impl Session {
    /// The command's next output; none when its channel has ended, or the host refused to run it.
    /// Loses nothing if it is dropped before it is ready.
    pub(crate) async fn output(&mut self) -> Option<Output> {
        output(&mut self.messages).await
    }

    /// As [`Session::output`], for a caller that has so many bytes of it before and keeps them:
    /// [`SshError::TooLong`] if they are too many with these.
    pub async fn output_beside(&mut self, kept: usize) -> Result<Option<Output>, SshError> {
        let output = self.output().await;
        let length = match &output {
            Some(Output::Stdout(piece) | Output::Stderr(piece)) => piece.len(),
            Some(Output::Status(_)) | None => 0,
        };
        demand_room(kept, length)?;
        Ok(output)
    }

    /// Splits the session into its two directions, for use at the same time.
    #[must_use]
    pub fn split(self) -> (Outputs, Sender) {
        (Outputs(self.messages), self.sender)
    }
}

/// Refuses a piece of so many bytes where so many are `kept` that the two are more than is collected.
pub(super) fn demand_room(kept: usize, length: usize) -> Result<(), SshError> {
    if kept + length > COLLECTED {
        return Err(SshError::TooLong(COLLECTED >> 20));
    }
    Ok(())
}

/// The output of a command between pipes.
pub struct Outputs(ChannelReadHalf);

impl Outputs {
    /// As [`Session::output`].
    pub async fn next(&mut self) -> Option<Output> {
        output(&mut self.0).await
    }
}

async fn output(messages: &mut ChannelReadHalf) -> Option<Output> {
    loop {
        return match messages.wait().await {
            Some(ChannelMsg::Data { data }) => Some(Output::Stdout(data)),
            Some(ChannelMsg::ExtendedData { data, .. }) => Some(Output::Stderr(data)),
            Some(ChannelMsg::ExitStatus { exit_status }) => Some(Output::Status(exit_status)),
            Some(ChannelMsg::Failure | ChannelMsg::Close) | None => None,
            Some(_) => continue,
        };
    }
}

/// The sending half of a channel; dropping it closes the channel.
pub struct Sender {
    half: Arc<ChannelWriteHalf<Msg>>,
    end: End,
}

impl Sender {
    pub(super) fn new(half: ChannelWriteHalf<Msg>, end: End) -> Self {
        let half = Arc::new(half);
        Self { half, end }
    }

    /// Asks for `command`, in a terminal if one is described; false when the connection has ended.
    pub(super) async fn ask(&self, command: &str, terminal: Option<&TerminalRequest>) -> bool {
        let asking = async {
            if let Some(TerminalRequest { term, size, modes }) = terminal {
                let [columns, rows, width, height] = size.as_u32();
                self.half
                    .request_pty(true, term, columns, rows, width, height, modes)
                    .await?;
            }
            self.half.exec(true, command).await
        };
        self.alive(asking).await
    }

    /// Offers the agent of this computer to the command that is asked for next; false when the
    /// connection has ended.
    pub(super) async fn offer_agent(&self) -> bool {
        self.alive(self.half.agent_forward(true)).await
    }

    /// Sends `data` as the host's window allows; false when the connection has ended.
    pub async fn send(&self, data: Bytes) -> bool {
        self.alive(self.half.data_bytes(data)).await
    }

    /// Announces that nothing more will be sent.
    pub(super) async fn eof(&self) -> bool {
        self.alive(self.half.eof()).await
    }

    /// Sends the terminal's new size.
    pub(super) async fn resize(&self, size: Size) -> bool {
        let [columns, rows, width, height] = size.as_u32();
        self.alive(self.half.window_change(columns, rows, width, height))
            .await
    }

    /// Waits until the connection has ended; the reason.
    pub(super) async fn wait_for_end(&self) -> String {
        self.end.reason().await
    }

    async fn alive(&self, sending: impl Future<Output = Result<(), russh::Error>>) -> bool {
        tokio::select! {
            sent = sending => sent.is_ok(),
            _ = self.end.reason() => false,
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Without a runtime the connection itself is gone.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let half = Arc::clone(&self.half);
            runtime.spawn(async move { half.close().await });
        }
    }
}

/// A signal's number on Linux; 0 for a name that RFC 4254 does not have.
pub(super) fn signal_number(signal: &Sig) -> u32 {
    match signal {
        Sig::HUP => 1,
        Sig::INT => 2,
        Sig::QUIT => 3,
        Sig::ILL => 4,
        Sig::ABRT => 6,
        Sig::FPE => 8,
        Sig::KILL => 9,
        Sig::USR1 => 10,
        Sig::SEGV => 11,
        Sig::PIPE => 13,
        Sig::ALRM => 14,
        Sig::TERM => 15,
        Sig::Custom(name) if name == "USR2" => 12,
        Sig::Custom(_) => 0,
    }
}
