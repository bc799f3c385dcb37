//! Sizes, times and numbers as they are typed, and the texts that are none.

use super::*;

#[test]
fn sizes_are_binary_and_a_plain_number_is_in_gib() {
    for (text, gib) in [
        ("200", 200),
        ("200G", 200),
        ("200g", 200),
        ("64GiB", 64),
        ("64GB", 64),
        ("64 GiB", 64),
        ("1T", 1024),
        ("1TiB", 1024),
        ("1.5TiB", 1536),
        ("2048M", 2),
        ("65536", 65_536),
    ] {
        assert_eq!(size(text), Ok(gib), "{text}");
    }
    for text in ["", "G", "12X", "two", "-3", "200 apples"] {
        let why = size(text).unwrap_err();
        assert_eq!(why.to_string(), "it is not a size such as 200G", "{text}");
        assert!(why.hint().unwrap().contains("1TiB"), "{why:?}");
    }
    for text in ["0", "65537", "65T", "1500M", "0.5"] {
        let why = size(text).unwrap_err().to_string();
        assert!(
            why.contains("1 GiB at least and 65536 GiB at most"),
            "{why}"
        );
    }
}

#[test]
fn dollars_are_refused_with_their_range() {
    assert_eq!(max_price("0.05"), Ok("0.05".parse().unwrap()));
    assert_eq!(budget("0"), Ok(Price::default()));
    assert!(max_price("1000").is_ok() && budget("1000").is_ok());
    let range = "the most to pay is more than 0 dollars an hour, and 1000 at most";
    for text in ["0", "1000.01", "free"] {
        let why = max_price(text).unwrap_err().to_string();
        assert!(why.ends_with(range), "{text}: {why}");
    }
    for text in ["1000.01", "-1", "$2"] {
        let why = budget(text).unwrap_err().to_string();
        let range = "a budget is 0 dollars at least, and 1000 at most";
        assert!(why.ends_with(range), "{text}: {why}");
    }
}

#[test]
fn a_spool_is_in_mebibytes() {
    assert_eq!(spool("64"), spool("64M"));
    assert_eq!(spool("1G"), Ok(1 << 30));
    let least = spool("3").unwrap_err().to_string();
    assert!(least.contains("4 MiB at least"), "{least}");
    assert!(spool("much").is_err() && spool("65G").is_err());
}

#[test]
fn times_have_days_hours_minutes_and_seconds() {
    for (text, seconds) in [
        ("3d", 259_200),
        ("90m", 5_400),
        ("1h30m", 5_400),
        ("1h 30m", 5_400),
        ("8 hours", 28_800),
        ("PT2M", 120),
        ("1w", 604_800),
        ("10s", 10),
    ] {
        assert_eq!(lease(text), Ok(Duration::from_secs(seconds)), "{text}");
    }
    for (text, why) in [
        ("soon", "it is not a time"),
        ("30", "it is not a time"),
        ("1mo", "months and years"),
        ("-3h", "cannot be negative"),
        ("9s", "10s at least and 7d at most"),
        ("8d", "10s at least and 7d at most"),
    ] {
        let error = lease(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    assert_eq!(idle_limit("30m"), lease("30m"));
    assert_eq!(idle_limit("none"), Ok(Duration::ZERO));
    let error = idle_limit("9s").unwrap_err().to_string();
    assert!(error.contains("10s at least"), "{error}");
    assert_eq!(checkpoint("15s"), Ok(Duration::from_secs(15)));
    assert!(checkpoint("14s").is_err());
}

#[test]
fn the_exit_status_of_a_command_is_kept_as_long_as_a_host_may_be() {
    let command = include_str!("../../../shell/host/running.py");
    let line = format!("\nLINGER = {} * 86400  #", LEASES.end().as_secs() / 86400);
    assert!(command.contains(&line), "{line}");
}

#[test]
fn a_notice_is_a_time_or_a_number_of_seconds() {
    assert_eq!(notice("0"), Ok(Duration::ZERO));
    assert_eq!(notice("120"), notice("2m"));
    let why = notice("86401").unwrap_err().to_string();
    assert_eq!(why, "a notice is given 0s at least and 1d at most");
}

#[test]
fn a_gpu_by_name_is_answered_with_a_type_that_has_it() {
    assert_eq!(gpus("2"), Ok(2));
    let named = gpus("l4").unwrap_err();
    assert!(
        named.hint().unwrap().contains("--type g6.xlarge"),
        "{named:?}"
    );
    let unknown = gpus("Voodoo2").unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "it is not a whole number from 1 to 1024"
    );
    assert!(cpus("0").is_err() && cpus("4097").is_err() && cpus("4").is_ok());
}
