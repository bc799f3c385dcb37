//! The retry of a call while its answer is not final.

use std::time::Duration;

use tokio::time::sleep;

/// Makes `call`, and again after each of `pauses` while its answer `may_retry`. Returns the last
/// answer.
pub async fn retry<T, C: Future<Output = T>>(
    pauses: &[Duration],
    may_retry: impl Fn(&T) -> bool,
    call: impl Fn() -> C,
) -> T {
    for pause in pauses {
        let answer = call().await;
        if !may_retry(&answer) {
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

    use tokio::time::Instant;

    use super::*;

    const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

    /// The number of calls that are made, and the seconds that pass, if the answers that `may_retry`
    /// are retried. Each answer is its call's number.
    async fn calls(may_retry: impl Fn(&u32) -> bool) -> (u32, u64) {
        let made = Cell::new(0);
        let call = || {
            made.set(made.get() + 1);
            ready(made.get())
        };
        let began = Instant::now();
        let answer = retry(&PAUSES, may_retry, call).await;
        assert_eq!(answer, made.get(), "the last answer");
        (answer, began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_repeated_until_its_answer_is_final_or_no_pause_is_left() {
        assert_eq!(calls(|_| false).await, (1, 0));
        assert_eq!(calls(|call| *call < 2).await, (2, 1));
        assert_eq!(calls(|_| true).await, (3, 1 + 3));
    }
}
