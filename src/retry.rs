//! The retry of a call while its answer is not final.

use std::time::Duration;

use tokio::time::sleep;

/// Makes `call`, and again after each of `pauses` while its answer `is_early`; the last answer.
pub(crate) async fn retry<T, C: Future<Output = T>>(
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::ready;

    use super::*;

    const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

    /// The number of calls until the answer, which is the number of the call, `is_early` no more.
    async fn calls(is_early: impl Fn(&u32) -> bool) -> u32 {
        let made = Cell::new(0);
        let call = || {
            made.set(made.get() + 1);
            ready(made.get())
        };
        let answer = retry(&PAUSES, is_early, call).await;
        assert_eq!(answer, made.get(), "the last answer");
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_repeated_until_its_answer_is_final_or_no_pause_is_left() {
        assert_eq!(calls(|_| false).await, 1);
        assert_eq!(calls(|call| *call < 2).await, 2);
        assert_eq!(calls(|_| true).await, 3);
    }
}
