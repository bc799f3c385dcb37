//! Variants of `boot`, which `shell/test.sh --all` runs.

use crate::host::machine::Machine;

#[tokio::test]
#[ignore = "needs root (namespaces, loop devices) and the machine tree"]
async fn xdrives_settings_are_the_first_that_sshd_reads_whatever_its_own_file_says() {
    const OURS: &str = "Include /etc/ssh/sshd_config.d/00-xdrive.conf\n";
    let machine = Machine::boot().await;
    // Twice: an existing line is not added again.
    let boots = async |config: &str| {
        machine
            .sh(&format!(
                "cat > /etc/ssh/sshd_config << 'END'\n{config}END\n\
                 chmod 600 /etc/ssh/sshd_config; \
                 for n in 1 2; do sh /var/lib/cloud/instance/boothooks/part-001; done; \
                 /usr/sbin/sshd -t && cat /etc/ssh/sshd_config; ls /etc/ssh | grep -v key >&2; \
                 stat -c %a /etc/ssh/sshd_config"
            ))
            .await
    };
    // A file that includes them first is not changed.
    for config in [
        "# words\n\n  include /etc/ssh/sshd_config.d/*.conf\nPermitRootLogin no\n",
        "Include sshd_config.d/*.conf\nPermitRootLogin no\n",
        "Include \"/etc/ssh/sshd_config.d/*.conf\"\nPermitRootLogin no\n",
    ] {
        assert_eq!(boots(config).await, format!("{config}600\n"));
    }
    for config in [
        "",
        "PermitRootLogin no\nMatch User somebody\nX11Forwarding no\n",
        "# Include /etc/ssh/sshd_config.d/*.conf\nPermitRootLogin no\n",
        "PermitRootLogin no\nInclude /etc/ssh/sshd_config.d/*.conf\n",
        "Include /etc/ssh/other.d/*.conf\nUsePAM yes\nPermitRootLogin no\n",
    ] {
        assert_eq!(boots(config).await, format!("{OURS}{config}600\n"));
        let printed = machine
            .sh("/usr/sbin/sshd -T | grep -i -e '^hostkey .*xdrive' -e ^permitrootlogin")
            .await;
        assert!(
            printed.contains("permitrootlogin without-password"),
            "{printed}"
        );
        assert!(printed.contains("/etc/ssh/xdrive_host_ecdsa"), "{printed}");
    }
    // sshd reads that again.
    machine.login().await;
    // An sshd without Include keeps its file.
    machine
        .sh("mv /usr/sbin/sshd /usr/sbin/sshd.real && \
             printf '#!/bin/sh\\n! grep -qs Include \"$3\" || { echo no Include >&2; exit 255; }\\n' > /usr/sbin/sshd && \
             chmod 755 /usr/sbin/sshd")
        .await;
    let plain = "PermitRootLogin no\n";
    assert_eq!(boots(plain).await, format!("{plain}600\n"));
}
