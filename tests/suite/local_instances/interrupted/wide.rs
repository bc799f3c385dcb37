//! Variants of `interrupted`, which `shell/test.sh --all` runs.

use std::time::Duration;

use super::metadata;
use crate::local_instances::until;
use crate::session::site::Site;

#[test]
#[ignore = "needs root (namespaces) and the machine tree"]
fn a_recommendation_to_leave_is_received_and_nothing_follows() {
    let site = Site::machines();
    let host = site.launch();
    let noticed = "2026-11-21T12:00:00.7Z".parse().unwrap();
    site.plane.recommend_rebalance(&host.id, noticed).unwrap();
    let recommendation = metadata(&host, "events/recommendations/rebalance");
    assert_eq!(recommendation, r#"{"noticeTime": "2026-11-21T12:00:00Z"}"#);
    assert_eq!(metadata(&host, "events/recommendations/"), "rebalance");
    site.plane
        .power_off(&host.id, Duration::from_mins(1))
        .unwrap();
    until("an end", || !site.plane.is_up(&host.up));
    assert!(site.plane.recommend_rebalance(&host.id, noticed).is_err());
}
