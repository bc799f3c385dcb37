//! A pseudo-terminal with a client in it, and what a person would see.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

use super::client::Task;
use super::eventually;

const SIZE: PtySize = PtySize {
    rows: 24,
    cols: 80,
    pixel_width: 0,
    pixel_height: 0,
};

pub(super) struct Pty {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    modes_before: String,
}

impl Drop for Pty {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pty {
    pub(super) fn start(task: &Task) -> Self {
        let pair = native_pty_system().openpty(SIZE).unwrap();
        let (program, arguments, (name, value)) = task.call();
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.env(name, value);
        command.env("TERM", "xterm");
        let modes_before = modes_of(&*pair.master);
        let child = pair.slave.spawn_command(command).unwrap();
        let [rows, columns] = [SIZE.rows, SIZE.cols].map(|side| side.try_into().unwrap());
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let shown = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Until the last holder of the other side is gone.
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                shown.lock().unwrap().process(&buffer[..length]);
            }
        });
        Self {
            child,
            keyboard: pair.master.take_writer().unwrap(),
            master: pair.master,
            screen,
            modes_before,
        }
    }

    pub(super) fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Waits until `text` is on the screen: something computed, not what was typed.
    pub(super) fn see(&self, text: &str) {
        eventually(&format!("{text:?} in\n{}", self.contents()), || {
            self.contents().contains(text)
        });
    }

    pub(super) fn contents(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    pub(super) fn screen<T>(&self, look: impl Fn(&vt100::Screen) -> T) -> T {
        look(self.screen.lock().unwrap().screen())
    }

    pub(super) fn resize(&self, rows: u16, cols: u16) {
        let size = PtySize { rows, cols, ..SIZE };
        self.master.resize(size).unwrap();
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// The state letter of the client's process in proc(5): `T` is stopped.
    pub(super) fn state(&self) -> char {
        let pid = self.pid().as_raw_nonzero();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, after_name) = stat.rsplit_once(") ").unwrap();
        after_name.chars().next().unwrap()
    }

    fn pid(&self) -> Pid {
        let pid = self.child.process_id().unwrap();
        Pid::from_raw(pid.try_into().unwrap()).unwrap()
    }

    pub(super) fn wait(&mut self) {
        eventually(&format!("the end of\n{}", self.contents()), || {
            self.child.try_wait().unwrap().is_some()
        });
    }

    /// Every mode of the terminal, byte for byte, is as before the client.
    pub(super) fn modes_are_as_before(&self) -> bool {
        modes_of(&*self.master) == self.modes_before
    }
}

fn modes_of(master: &dyn MasterPty) -> String {
    format!("{:?}", master.get_termios().unwrap())
}
