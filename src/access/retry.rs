//! The retry of a call while its answer is not final.

use std::time::Duration;

use tokio::time::sleep;

/// Makes `call`, and again after each of `pauses` while its answer `is_early`; the last answer.
pub(super) async fn retry<T, C: Future<Output = T>>(
    pauses: &[Duration],
    is_early: impl Fn(&T) -> bool,
    call: impl Fn() -> C,
) -> T {
    for pause in pauses {
        let answer = call().await;
        if !is_early(&answer) {
            return answer;
        }
        sleep(*pause).await;
    }
    call().await
}
