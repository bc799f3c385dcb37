//! Variants of `faults`, which `shell/test.sh --all` runs.

use std::time::Instant;

use super::world::World;
use super::{Past, test};
use harness::faults::proxy::Fate;
use harness::simulation::life::Ended;

#[test]
#[ignore = "needs python3 with moto"]
fn a_drive_lives_through_storms_against_moto() {
    let name = test_name!(a_drive_lives_through_storms_against_moto);
    test(name, true, storms);
}

#[test]
fn a_drive_lives_through_storms_in_the_folder() {
    test(
        test_name!(a_drive_lives_through_storms_in_the_folder),
        false,
        storms,
    );
}

/// Throttling storms: every other second and a half EC2 refuses everything.
async fn storms(world: &mut World) {
    const SPELL: u128 = 1500;
    for past in [Past::New, Past::Saved] {
        world.come_to(past).await;
        let began = Instant::now();
        world.proxy.decide(move |_| {
            if (began.elapsed().as_millis() / SPELL).is_multiple_of(2) {
                Fate::Refused(503, "RequestLimitExceeded", "Request limit exceeded.")
            } else {
                Fate::Passed
            }
        });
        let ended = world.session().await;
        assert!(matches!(ended, Ended::Saved), "{past:?}: {ended:?}");
        assert_eq!(world.unreported(&ended).await, [""; 0]);
        world.proxy.decide(|_| Fate::Passed);
        assert_eq!(world.problems().await, [""; 0]);
    }
}
