//! Authorizing a key for a minute (EC2 Instance Connect API reference).
//!
//! This call is another service than EC2, with a permission of its own
//! (`ec2-instance-connect:SendSSHPublicKey`), and not every region or endpoint has it.

use super::{Ec2, Error, Kind, Zone};
use crate::ids::InstanceId;

impl Ec2 {
    /// Authorizes `key`, a line of `authorized_keys`, to log in as `user` to a running instance,
    /// for 60 seconds. It may be repeated. [`Kind::Denied`] if the caller lacks the right,
    /// [`Kind::Invalid`] if the endpoint lacks the call.
    pub async fn send_ssh_key(
        &self,
        instance: &InstanceId,
        zone: &Zone,
        user: &str,
        key: &str,
    ) -> Result<(), Error> {
        const CALL: &str = "SendSSHPublicKey";
        let answer = self
            .connect
            .send_ssh_public_key()
            .instance_id(instance.as_str())
            .availability_zone(&zone.0)
            .instance_os_user(user)
            .ssh_public_key(key)
            .send()
            .await
            .map_err(|error| Error::from_sdk(CALL, &error))?;
        if answer.success {
            return Ok(());
        }
        Err(Error {
            call: CALL,
            kind: Kind::Server,
            code: String::new(),
            message: "the key was not let in".to_owned(),
        })
    }
}
