use super::*;

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn tags_are_read_as_of_a_moment_and_forgotten_without_changing_later_answers() {
    let mut tags = Tags::new(second(1), &BTreeMap::from([("a".into(), "1".into())]));
    tags.set(second(2), "a", Some("2"));
    tags.set(second(3), "b", Some("x"));
    tags.set(second(4), "b", None);
    tags.set(second(9), "a", None);
    let before: Vec<_> = (5..10).map(|at| tags.at(second(at)).len()).collect();
    assert_eq!(tags.at(second(3)), BTreeMap::from([("a", "2"), ("b", "x")]));
    let mut shorter = tags.clone();
    shorter.forget_before(second(5));
    assert_eq!(shorter.0.len(), 2);
    let after: Vec<_> = (5..10).map(|at| shorter.at(second(at)).len()).collect();
    assert_eq!(before, after);
}

#[test]
fn an_attachment_that_the_machine_holds_on_to_becomes_busy() {
    let patience = std::time::Duration::from_secs(3);
    let mut attachment = Attachment {
        instance: "i-1".into(),
        device: "/dev/sdf".into(),
        attaching: second(10),
        attached: second(12),
        detaching: None,
        detached: None,
        delete_on_termination: vec![(second(10), false), (second(14), true)],
    };
    assert!(!attachment.holds(second(9)));
    assert_eq!(attachment.status(second(11), patience), "attaching");
    assert_eq!(attachment.status(second(12), patience), "attached");
    assert!(!attachment.deletes(second(13)) && attachment.deletes(second(14)));
    attachment.detaching = Some(second(20));
    assert_eq!(attachment.status(second(22), patience), "detaching");
    assert_eq!(attachment.status(second(30), patience), "busy");
    attachment.detached = Some(second(40));
    assert!(attachment.holds(second(39)) && !attachment.holds(second(40)));
}
