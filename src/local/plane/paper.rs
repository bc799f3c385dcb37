//! The paper plane: records alone, no process and no disk.

use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{BLOCK, Firewall, Image, Machine, Plane, PlaneError, Source, Up};
use xdrive_ground::clock::BootTime;

/// The only image.
const IMAGE: &str = "ami-00000000000000001";

/// States only: no process, no disk.
#[derive(Debug, Clone, Copy)]
pub struct PaperPlane;

impl Plane for PaperPlane {
    fn is_real(&self) -> bool {
        false
    }

    fn check(&self) -> Result<(), PlaneError> {
        Ok(())
    }

    fn launch(&self, _machine: &Machine) -> Result<Up, PlaneError> {
        Ok(Up {
            address: Ipv4Addr::LOCALHOST,
            supervisor: 0,
            started: 0,
        })
    }

    fn is_up(&self, _up: &Up) -> bool {
        true
    }

    fn has_booted(&self, _instance: &str) -> Result<bool, PlaneError> {
        Ok(true)
    }

    fn power_off(&self, _instance: &str, _grace: Duration) -> Result<(), PlaneError> {
        Ok(())
    }

    fn reboot(&self, _instance: &str, _grace: Duration) -> Result<(), PlaneError> {
        Ok(())
    }

    fn can_interrupt(&self) -> Result<(), PlaneError> {
        Ok(())
    }

    fn interrupt(
        &self,
        _instance: &str,
        _at: Timestamp,
        _left: Duration,
    ) -> Result<(), PlaneError> {
        Ok(())
    }

    fn recommend_rebalance(&self, _instance: &str, _noticed: Timestamp) -> Result<(), PlaneError> {
        Ok(())
    }

    fn guard(&self, _firewall: &Firewall) -> Result<(), PlaneError> {
        Ok(())
    }

    fn clear(&self, _instance: &str) -> Result<(), PlaneError> {
        Ok(())
    }

    fn create_volume(
        &self,
        _volume: &str,
        _gib: u32,
        _source: Option<Source<'_>>,
    ) -> Result<(), PlaneError> {
        Ok(())
    }

    fn grow_volume(&self, _volume: &str, _gib: u32) -> Result<(), PlaneError> {
        Ok(())
    }

    fn attach(
        &self,
        _volume: &str,
        _instance: &str,
        _device: &str,
        _due: BootTime,
    ) -> Result<(), PlaneError> {
        Ok(())
    }

    fn detach(&self, _volume: &str, _instance: &str) -> Result<(), PlaneError> {
        Ok(())
    }

    fn create_snapshot(&self, _snapshot: &str, _volume: &str) -> Result<(), PlaneError> {
        Ok(())
    }

    fn delete_volume(&self, _volume: &str) -> Result<(), PlaneError> {
        Ok(())
    }

    fn delete_file_system(&self, _id: &str) -> Result<(), PlaneError> {
        Ok(())
    }

    fn delete_snapshot(&self, _snapshot: &str) -> Result<(), PlaneError> {
        Ok(())
    }

    fn blocks(&self, _snapshot: &str) -> Result<Vec<u32>, PlaneError> {
        Ok(Vec::new())
    }

    fn block(&self, _snapshot: &str, _index: u32) -> Result<Vec<u8>, PlaneError> {
        Ok(vec![0; BLOCK])
    }

    fn console(&self, _instance: &str) -> Result<Vec<u8>, PlaneError> {
        Ok(Vec::new())
    }

    fn send_ssh_key(&self, _instance: &str, _user: &str, _key: &str) -> Result<(), PlaneError> {
        Ok(())
    }

    fn images(&self) -> Result<Vec<Image>, PlaneError> {
        Ok(vec![Image {
            id: IMAGE.to_owned(),
            name: "xdrive-local-paper".to_owned(),
            built: Timestamp::UNIX_EPOCH,
        }])
    }

    fn sweep(
        &self,
        _instances: &[&str],
        _volumes: &[&str],
        _snapshots: &[&str],
    ) -> Result<(), PlaneError> {
        Ok(())
    }
}

/// The three fields of an ext4 superblock that matter here (Linux kernel documentation, *ext4 Data
/// Structures and Algorithms*, *Super Block*).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaperSuperblock {
    /// The file system's UUID.
    pub uuid: [u8; 16],
    /// `s_state`: 1 is cleanly unmounted, 2 has errors.
    pub state: u16,
    /// Whether its journal must be replayed: it is mounted, or was when it was copied.
    pub recover: bool,
}

impl PaperSuperblock {
    /// As `mkfs` or an unmount leaves it.
    #[must_use]
    pub fn clean(uuid: [u8; 16]) -> Self {
        Self {
            uuid,
            state: 1,
            recover: false,
        }
    }

    /// As a mount leaves it.
    #[must_use]
    pub fn mounted(uuid: [u8; 16]) -> Self {
        Self {
            recover: true,
            ..Self::clean(uuid)
        }
    }

    /// The disk's first block.
    #[must_use]
    pub fn block(&self) -> Vec<u8> {
        const START: usize = 1024;
        let mut block = vec![0; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| {
            block[START + at..START + at + bytes.len()].copy_from_slice(bytes);
        };
        put(0x38, &0xEF53_u16.to_le_bytes());
        put(0x3A, &self.state.to_le_bytes());
        // Revision 1: features and UUID count.
        put(0x4C, &1_u32.to_le_bytes());
        let incompatible = if self.recover { 0x0246_u32 } else { 0x0242 };
        put(0x60, &incompatible.to_le_bytes());
        put(0x68, &self.uuid);
        block
    }
}
