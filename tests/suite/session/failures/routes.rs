//! Failing routes: proxies before AWS, proxy commands before hosts, networks that require a login.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::{Account, is_xdrive, run_to_end};
use harness::faults::proxy::Fate;

#[test]
fn a_command_that_is_not_there_is_reported_at_once() {
    let account = Account::new();
    let began = Instant::now();
    let ended = account.connect(&["--proxy-command", "no-such-program %h %p"]);
    ended
        .is(69)
        .reports("hint: does --proxy-command (`proxy_command` in the configuration) work");
    let error = ended.error();
    assert!(
        error.starts_with("no way in to demo's instance (i-"),
        "{error}"
    );
    assert!(
        error.contains("the proxy command ended with exit status 127: "),
        "{error}"
    );
    assert!(error.contains("no-such-program"), "{error}");
    // Not the five minutes that a host has.
    assert!(
        began.elapsed() < Duration::from_mins(1),
        "{:?}",
        began.elapsed()
    );
    account.is_bare();
}

#[test]
fn a_command_that_always_ends_is_not_waited_for_as_a_host_is() {
    let name = test_name!(a_command_that_always_ends_is_not_waited_for_as_a_host_is);
    if is_xdrive() {
        return;
    }
    let account = Account::new();
    let ended = account.hurried(
        name,
        &["--proxy-command", "echo no such plugin >&2; exit 7"],
    );
    ended
        .is(69)
        .reports("no way in to demo's instance (i-")
        .reports("its console");
    let words = "the proxy command ended with exit status 7: no such plugin";
    assert!(ended.error().ends_with(words), "{ended:?}");
    let calls = account.proxy.calls();
    let launched = calls.iter().filter(|call| *call == "RunInstances").count();
    assert_eq!(launched, 1, "another one is reached no better");
    account.is_bare();
}

/// An HTTPS proxy that gives every `CONNECT` this answer, while this process lives.
fn proxy(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            // The client may close before the answer.
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[test]
fn a_proxy_in_the_way_of_aws_is_named() {
    let account = Account::new();
    for (answer, why, hint) in [
        (
            "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n",
            "proxy authorization required",
            "hint: the proxy wants to know who asks: HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT",
        ),
        (
            "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n",
            "tunnel error: unsuccessful",
            "hint: the proxy of HTTPS_PROXY does not let this through",
        ),
        (
            "SSH-2.0-not_a_proxy\r\n\r\n",
            "tunnel error",
            "hint: the proxy of HTTPS_PROXY does not let this through",
        ),
    ] {
        let mut xdrive = account.xdrive(&["list"]);
        xdrive.env_remove("AWS_ENDPOINT_URL");
        let ended = run_to_end(xdrive.env("HTTPS_PROXY", proxy(answer)));
        ended.is(1).reports(hint);
        let error = ended.error();
        assert!(error.contains(why), "{error}");
    }
    // No server is there at all.
    let mut xdrive = account.xdrive(&["list"]);
    xdrive.env_remove("AWS_ENDPOINT_URL");
    let ended = run_to_end(xdrive.env("HTTPS_PROXY", "http://127.0.0.1:9"));
    ended
        .is(1)
        .reports("hint: the proxy of HTTPS_PROXY does not let this through");
    assert!(ended.error().contains("Connection refused"), "{ended:?}");
}

#[test]
fn a_network_that_wants_a_login_is_not_taken_for_aws() {
    let account = Account::new();
    for (status, hint) in [
        (200, "hint: what answers is not AWS"),
        (407, "hint: what answers is not AWS"),
        (502, "hint: what answers is not AWS"),
    ] {
        let page = "<html><title>Welcome to the hotel</title></html>";
        account.proxy.decide(move |_| Fate::Page(status, page));
        let ended = account.connect(&[]);
        ended.is(1).reports(hint);
        assert!(
            ended.error().starts_with("GetCallerIdentity: "),
            "{ended:?}"
        );
        account.is_untouched();
    }
    account.proxy.decide(|_| Fate::Unsent);
    account
        .connect(&[])
        .is(1)
        .reports("hint: is the network up");
    account.is_untouched();
}
