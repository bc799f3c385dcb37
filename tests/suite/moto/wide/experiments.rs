//! Fault Injection Service against moto, which has templates and no experiments.

use crate::moto::server::against_moto;

#[test]
#[ignore = "needs python3 with moto"]
fn calls_for_an_experiment_are_as_moto_expects_them() {
    let name = test_name!(calls_for_an_experiment_are_as_moto_expects_them);
    against_moto(name, async |ec2| {
        let owner = ec2.owner().await.unwrap();
        ec2.default_vpc().await.unwrap();
        let role = "arn:aws:iam::123456789012:role/fis";
        let instance = "i-0123456789abcdef0".parse().unwrap();
        let inject = async |instance| {
            ec2.inject_interruption(&owner, &"selftest-1-taken".parse().unwrap(), role, instance)
                .await
        };
        let injection = inject(Some(&instance)).await;
        let error = injection.experiment.unwrap_err();
        assert!(error.to_string().starts_with("HTTP 404"), "{error}");
        assert!(injection.left.is_none(), "{:?}", injection.left);
        // Without a start the template is only made and deleted.
        let unstarted = inject(None).await;
        assert_eq!(unstarted.experiment, Ok(None));
        assert!(unstarted.left.is_none(), "{:?}", unstarted.left);
    });
}
