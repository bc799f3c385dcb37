//! A pseudo-terminal with a program in it, and its screen.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

use super::{DEADLINE, eventually_within};

const SIZE: PtySize = PtySize {
    rows: 24,
    cols: 80,
    pixel_width: 0,
    pixel_height: 0,
};

pub struct Pty {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    record: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
    modes_before: String,
}

impl Drop for Pty {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pty {
    /// Runs `command` in a terminal of 80 by 24.
    pub fn start(mut command: CommandBuilder) -> Self {
        let pair = native_pty_system().openpty(SIZE).unwrap();
        command.env("TERM", "xterm");
        // A backtrace would scroll what a test looks for off the screen.
        command.env("RUST_BACKTRACE", "0");
        let modes_before = modes_of(&*pair.master);
        let child = pair.slave.spawn_command(command).unwrap();
        let [rows, columns] = [SIZE.rows, SIZE.cols].map(|side| side.try_into().unwrap());
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let shown = Arc::clone(&screen);
        let record = Arc::default();
        let recorded = Arc::<Mutex<Vec<u8>>>::clone(&record);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Until the last holder of the other side has closed it.
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                recorded.lock().unwrap().extend(&buffer[..length]);
                shown.lock().unwrap().process(&buffer[..length]);
            }
        });
        Self {
            child,
            keyboard: pair.master.take_writer().unwrap(),
            master: pair.master,
            screen,
            record,
            reader,
            modes_before,
        }
    }

    /// How often `bytes` were sent to the terminal, visible or not.
    pub fn sent(&self, bytes: &str) -> usize {
        let record = self.record.lock().unwrap();
        String::from_utf8_lossy(&record).matches(bytes).count()
    }

    pub fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Waits until `text` is on the screen: computed text, which the echo of typed text is not.
    pub fn see(&self, text: &str) {
        self.see_within(DEADLINE, text);
    }

    /// Waits at most `limit` until `text` is on the screen.
    pub fn see_within(&self, limit: Duration, text: &str) {
        let seen = || self.contents().contains(text);
        eventually_within(limit, || format!("{text:?} in\n{}", self.contents()), seen);
    }

    pub fn contents(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    pub fn screen<T>(&self, look: impl Fn(&vt100::Screen) -> T) -> T {
        look(self.screen.lock().unwrap().screen())
    }

    pub fn resize(&self, rows: u16, cols: u16) {
        let size = PtySize { rows, cols, ..SIZE };
        self.master.resize(size).unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// The state letter of the program's process in proc(5): `T` is stopped.
    pub fn state(&self) -> char {
        let pid = self.pid().as_raw_nonzero();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, after_name) = stat.rsplit_once(") ").unwrap();
        after_name.chars().next().unwrap()
    }

    pub fn pid(&self) -> Pid {
        let pid = self.child.process_id().unwrap();
        Pid::from_raw(pid.try_into().unwrap()).unwrap()
    }

    pub fn wait(&mut self) {
        self.wait_within(DEADLINE);
    }

    /// Waits for the end; the exit code, 1 for a signal.
    pub fn wait_within(&mut self, limit: Duration) -> u32 {
        let mut code = None;
        let screen = Arc::clone(&self.screen);
        eventually_within(
            limit,
            || format!("the end of\n{}", screen.lock().unwrap().screen().contents()),
            || {
                code = self.exit_code();
                // Its last words may be on their way still.
                code.is_some() && self.reader.is_finished()
            },
        );
        code.unwrap()
    }

    /// The exit code, once it has ended; 1 for a signal.
    pub fn exit_code(&mut self) -> Option<u32> {
        let status = self.child.try_wait().unwrap();
        status.map(|status| status.exit_code())
    }

    /// Whether every mode of the terminal is as before the program.
    pub fn modes_are_as_before(&self) -> bool {
        modes_of(&*self.master) == self.modes_before
    }
}

fn modes_of(master: &dyn MasterPty) -> String {
    format!("{:?}", master.get_termios().unwrap())
}
