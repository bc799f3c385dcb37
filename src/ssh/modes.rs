//! The local terminal's modes, as SSH carries them (RFC 4254, section 8).
//!
//! With them the remote terminal erases, interrupts and echoes with the same keys as the local one.

use russh::Pty;
use rustix::termios::{
    ControlModes, InputModes, LocalModes, OutputModes, SpecialCodeIndex as Key, Termios,
};

/// Every mode that both sides know.
pub(super) fn encode(modes: &Termios) -> Vec<(Pty, u32)> {
    let keys = [
        (Pty::VINTR, Key::VINTR),
        (Pty::VQUIT, Key::VQUIT),
        (Pty::VERASE, Key::VERASE),
        (Pty::VKILL, Key::VKILL),
        (Pty::VEOF, Key::VEOF),
        (Pty::VEOL, Key::VEOL),
        (Pty::VEOL2, Key::VEOL2),
        (Pty::VSTART, Key::VSTART),
        (Pty::VSTOP, Key::VSTOP),
        (Pty::VSUSP, Key::VSUSP),
        (Pty::VREPRINT, Key::VREPRINT),
        (Pty::VWERASE, Key::VWERASE),
        (Pty::VLNEXT, Key::VLNEXT),
        (Pty::VDISCARD, Key::VDISCARD),
    ];
    let input = [
        (Pty::IGNPAR, InputModes::IGNPAR),
        (Pty::PARMRK, InputModes::PARMRK),
        (Pty::INPCK, InputModes::INPCK),
        (Pty::ISTRIP, InputModes::ISTRIP),
        (Pty::INLCR, InputModes::INLCR),
        (Pty::IGNCR, InputModes::IGNCR),
        (Pty::ICRNL, InputModes::ICRNL),
        (Pty::IXON, InputModes::IXON),
        (Pty::IXANY, InputModes::IXANY),
        (Pty::IXOFF, InputModes::IXOFF),
        (Pty::IMAXBEL, InputModes::IMAXBEL),
        (Pty::IUTF8, InputModes::IUTF8),
    ];
    let local = [
        (Pty::ISIG, LocalModes::ISIG),
        (Pty::ICANON, LocalModes::ICANON),
        (Pty::ECHO, LocalModes::ECHO),
        (Pty::ECHOE, LocalModes::ECHOE),
        (Pty::ECHOK, LocalModes::ECHOK),
        (Pty::ECHONL, LocalModes::ECHONL),
        (Pty::NOFLSH, LocalModes::NOFLSH),
        (Pty::TOSTOP, LocalModes::TOSTOP),
        (Pty::IEXTEN, LocalModes::IEXTEN),
        (Pty::ECHOCTL, LocalModes::ECHOCTL),
        (Pty::ECHOKE, LocalModes::ECHOKE),
    ];
    let output = [
        (Pty::OPOST, OutputModes::OPOST),
        (Pty::ONLCR, OutputModes::ONLCR),
        (Pty::OCRNL, OutputModes::OCRNL),
        (Pty::ONOCR, OutputModes::ONOCR),
        (Pty::ONLRET, OutputModes::ONLRET),
    ];
    let control = [
        (Pty::PARENB, ControlModes::PARENB),
        (Pty::PARODD, ControlModes::PARODD),
    ];
    let size = modes.control_modes & ControlModes::CSIZE;
    let mut encoded = vec![
        (Pty::TTY_OP_ISPEED, modes.input_speed()),
        (Pty::TTY_OP_OSPEED, modes.output_speed()),
        (Pty::CS7, u32::from(size == ControlModes::CS7)),
        (Pty::CS8, u32::from(size == ControlModes::CS8)),
    ];
    // 0 is "no such key" here, and 255 is in the protocol.
    encoded.extend(keys.map(|(name, key)| match modes.special_codes[key] {
        0 => (name, 255),
        code => (name, u32::from(code)),
    }));
    encoded.extend(input.map(|(name, bit)| (name, modes.input_modes.contains(bit).into())));
    encoded.extend(local.map(|(name, bit)| (name, modes.local_modes.contains(bit).into())));
    encoded.extend(output.map(|(name, bit)| (name, modes.output_modes.contains(bit).into())));
    encoded.extend(control.map(|(name, bit)| (name, modes.control_modes.contains(bit).into())));
    encoded
}
