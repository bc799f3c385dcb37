//! New ids of EC2's form.

/// A new unique id: for `i` it is as `i-0123456789abcdef0` is.
pub fn id(kind: &str) -> String {
    let mut random = [0; 8];
    getrandom::fill(&mut random).unwrap();
    format!("{kind}-0{}", hex::encode(random))
}
