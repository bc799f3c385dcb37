//! Fault Injection Service: an experiment interrupts one spot instance, and leaves no template.

use std::fs;

use serde_json::Value;
use xdrive::ec2::{Injection, LaunchOrder, Market, State};
use xdrive::ids::InstanceId;
use xdrive::local::{Fault, Preset};

use super::{launch_order, until};
use crate::folder::Folder;

const ROLE: &str = "arn:aws:iam::111122223333:role/fis";

impl Folder {
    async fn injects(&self, instance: &InstanceId) -> Injection {
        let owner = self.ec2.owner().await.unwrap();
        self.ec2
            .inject_interruption(
                &owner,
                &"selftest-1-taken".parse().unwrap(),
                ROLE,
                Some(instance),
            )
            .await
    }

    async fn has_notice(&self, instance: &InstanceId) -> bool {
        let status = self.ec2.spot_status(instance).await.unwrap();
        status.is_some_and(|status| status.interruption().is_some())
    }

    /// The numbers of templates and experiments in the folder.
    fn knows(&self) -> (usize, usize) {
        let text = fs::read_to_string(self.local.dir().join("state.json")).unwrap();
        let state: Value = serde_json::from_str(&text).unwrap();
        let count = |of: &str| state[of].as_object().map_or(0, serde_json::Map::len);
        (count("templates"), count("experiments"))
    }

    async fn launched(&self, token: &str, market: Market) -> InstanceId {
        let order = LaunchOrder {
            market,
            ..launch_order(token)
        };
        self.ec2.launch(&order).await.unwrap().id
    }
}

#[tokio::test(start_paused = true)]
async fn an_experiment_takes_back_its_own_instance_and_no_other_of_the_same_drive() {
    let folder = Folder::delayed(Preset::Fast);
    let own = folder.launched("own", Market::Spot).await;
    let other = folder.launched("other", Market::Spot).await;
    let injection = folder.injects(&own).await;
    let id = injection.experiment.unwrap().unwrap();
    assert!(injection.left.is_none(), "{:?}", injection.left);
    assert_eq!(folder.ec2.experiment(&id).await.unwrap(), State::Completed);
    let noticed = async || folder.has_notice(&own).await.then_some(());
    until("the notice", noticed).await;
    assert!(!folder.has_notice(&other).await);
    assert_eq!(folder.knows(), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_may_not_start_an_experiment_leaves_no_template() {
    let folder = Folder::delayed(Preset::Fast);
    let own = folder.launched("own", Market::Spot).await;
    for action in ["StartExperiment", "CreateExperimentTemplate"] {
        let fault = Fault::new(action, 403, "AccessDeniedException", "You may not.");
        folder.local.plant(fault).unwrap();
        let injection = folder.injects(&own).await;
        let error = injection.experiment.unwrap_err();
        assert!(error.is_denied(), "{error:?}");
        assert_eq!(error.to_string(), "AccessDeniedException: You may not.");
        assert!(injection.left.is_none(), "{:?}", injection.left);
        assert_eq!(folder.knows(), (0, 0));
    }
    assert!(!folder.has_notice(&own).await);
    let may_not_delete = Fault {
        times: 9,
        ..Fault::new(
            "DeleteExperimentTemplate",
            403,
            "AccessDeniedException",
            "No.",
        )
    };
    folder.local.plant(may_not_delete).unwrap();
    let (template, why) = folder.injects(&own).await.left.unwrap();
    assert!(template.starts_with("EXT"), "{template}");
    assert!(why.is_denied(), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_makes_neither_a_second_template_nor_a_second_experiment() {
    let folder = Folder::delayed(Preset::Fast);
    let own = folder.launched("own", Market::Spot).await;
    for action in [
        "CreateExperimentTemplate",
        "StartExperiment",
        "DeleteExperimentTemplate",
    ] {
        let fault = Fault::new(action, 500, "InternalServerException", "lost");
        let carried_out = true;
        let lost = Fault {
            carried_out,
            ..fault
        };
        folder.local.plant(lost).unwrap();
    }
    let injection = folder.injects(&own).await;
    assert!(injection.experiment.unwrap().is_some());
    assert!(injection.left.is_none(), "{:?}", injection.left);
    assert_eq!(folder.knows(), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn an_experiment_on_what_is_no_spot_instance_fails_and_says_so() {
    let folder = Folder::delayed(Preset::Fast);
    let on_demand = folder.launched("own", Market::OnDemand).await;
    let id = folder
        .injects(&on_demand)
        .await
        .experiment
        .unwrap()
        .unwrap();
    let State::Failed(why) = folder.ec2.experiment(&id).await.unwrap() else {
        panic!("it did not fail");
    };
    assert!(why.contains("Target resolution"), "{why}");
    let error = folder.ec2.experiment("EXP0").await.unwrap_err();
    assert!(error.to_string().starts_with("ResourceNotFound"), "{error}");
}
